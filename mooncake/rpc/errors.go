package rpc

import (
	"errors"
	"fmt"

	"ollamoon/mooncake/structpack"
)

var (
	// ErrConnect is returned when no connection to the server can be made.
	ErrConnect = errors.New("rpc: cannot connect")
	// ErrBroken is returned to calls that wait on a connection that ends. The
	// server may have run them.
	ErrBroken = errors.New("rpc: connection lost")
	// ErrTimeout is returned when the server does not answer within
	// Options.Timeout. The server may have run the call, or may still.
	ErrTimeout = errors.New("rpc: no answer in time")
	// ErrProtocol is returned when the server does not speak coro_rpc, or answers
	// with a frame larger than Options.MaxFrame. The connection ends.
	ErrProtocol = errors.New("rpc: protocol violated")
	// ErrClosed is returned by calls on a Conn that has been closed.
	ErrClosed = errors.New("rpc: closed")

	// ErrArguments is wrapped by the ServerError of a server that takes arguments
	// of other types: it speaks another version.
	ErrArguments = errors.New("rpc: the server takes other arguments")
	// ErrNoFunction is wrapped by the ServerError of a server that lacks the
	// function.
	ErrNoFunction = errors.New("rpc: the server has no such function")
)

// A ServerError is the server's refusal of a call. The connection stays.
type ServerError struct {
	Function string
	Code     int // of coro_rpc's errc
	Message  string
}

// Of errc.
const (
	codeArguments  = 4
	codeNoFunction = 11
	codeWide       = 255 // the code itself is in the body
)

func (e *ServerError) Error() string {
	return fmt.Sprintf("rpc: %s: error %d of the server: %q", e.Function, e.Code, e.Message)
}

// Unwrap returns ErrArguments, ErrNoFunction or nil.
func (e *ServerError) Unwrap() error {
	switch e.Code {
	case codeArguments:
		return ErrArguments
	case codeNoFunction:
		return ErrNoFunction
	}
	return nil
}

// serverError reads the body of a refusal. A body that cannot be read leaves the
// message empty: the code says enough.
func serverError(function string, code uint8, body []byte) *ServerError {
	e := &ServerError{Function: function, Code: int(code)}
	var err error
	if code == codeWide {
		err = structpack.Decode(structpack.Struct(structpack.U16, structpack.String), body, func(r *structpack.Reader) {
			e.Code, e.Message = int(r.U16()), r.String()
		})
	} else {
		err = structpack.Decode(structpack.String, body, func(r *structpack.Reader) { e.Message = r.String() })
	}
	if err != nil {
		e.Code, e.Message = int(code), ""
	}
	return e
}

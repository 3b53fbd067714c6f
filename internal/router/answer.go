package router

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// A format is how a stream is made of lines.
type format struct {
	part []byte // ends what comes with each token
	// terminal is what the last part of a whole stream has, one of these.
	terminal [][]byte
	// failure is what says in a stream, after whole lines, that it has failed.
	failure func(f failure, path string) []byte
}

// format of a stream, by its media type; nil for an answer that is none.
func (s Surface) format(h http.Header) *format {
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	switch kind {
	case "text/event-stream":
		return &format{
			part: []byte("\n\n"),
			terminal: [][]byte{
				[]byte("data: [DONE]"), []byte(`"stop":true`), []byte("event: message_stop"), []byte("event: response.completed"),
			},
			failure: s.failedEvent,
		}
	case "application/x-ndjson":
		return &format{
			part:     []byte("\n"),
			terminal: [][]byte{[]byte(`,"done":true,"done_reason":`)},
			failure:  func(f failure, path string) []byte { return append(f.body(s, path), '\n') },
		}
	}
	return nil
}

// failedEvent is a server-sent event for a failure, and what clients of the path
// wait for at the end.
func (s Surface) failedEvent(f failure, path string) []byte {
	event := []byte("\n") // ends an event that has lines already
	if path == "/v1/messages" {
		event = append(event, "event: error\n"...)
	}
	event = append(event, "data: "...)
	event = append(event, f.body(s, path)...)
	event = append(event, "\n\n"...)
	if strings.HasSuffix(path, "/chat/completions") || path == "/v1/completions" {
		event = append(event, "data: [DONE]\n\n"...)
	}
	return event
}

// An answer is a stream's body. It hands on whole lines, so that the client can
// use all that it has when the worker breaks off, and then ends with an error in
// the stream's format.
type answer struct {
	io.ReadCloser
	format *format
	path   string
	came   *atomic.Int64 // when the worker last sent something
	broken func(error)   // is told when the worker breaks off

	parts    int    // that have been handed on
	held     []byte // the beginning of a line; after the worker's end, what is left
	cut      bool   // what has been handed on ends within a line
	terminal bool   // the last part has been handed on
	ended    bool
}

func (a *answer) Read(p []byte) (int, error) {
	for !a.ended {
		if n := a.fill(p); n > 0 {
			return n, nil
		}
	}
	n := copy(p, a.held)
	a.held = a.held[n:]
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// fill reads more and returns how much of p can be handed on.
func (a *answer) fill(p []byte) int {
	held := copy(p, a.held)
	if held == len(p) { // the line is longer than p
		a.held = append([]byte(nil), a.held[held:]...)
		a.note(p)
		return held
	}
	n, err := a.ReadCloser.Read(p[held:])
	if n > 0 {
		a.came.Store(time.Now().UnixNano())
	}
	data := p[:held+n]
	whole := bytes.LastIndexByte(data, '\n') + 1
	if whole == 0 && len(data) == len(p) {
		whole = len(data)
	}
	a.note(data[:whole])
	a.held = append(a.held[:0], data[whole:]...)
	if err != nil {
		a.end(err)
	}
	return whole
}

// end leaves what ends the stream to be handed on.
func (a *answer) end(err error) {
	a.ended = true
	if errors.Is(err, io.EOF) { // as the worker has ended it
		return
	}
	a.held = nil
	if a.terminal && !a.cut {
		return // only the end of the connection is missing
	}
	a.broken(err)
	if a.cut {
		a.held = append(a.held, '\n')
	}
	a.held = append(a.held, a.format.failure(failure{status: http.StatusInternalServerError, kind: "server_error", message: errBroken.Error()}, a.path)...)
}

// note takes note of what is handed on.
func (a *answer) note(data []byte) {
	if len(data) == 0 {
		return
	}
	a.cut = data[len(data)-1] != '\n'
	a.parts += bytes.Count(data, a.format.part)
	for _, t := range a.format.terminal {
		a.terminal = a.terminal || bytes.Contains(data, t)
	}
}

// A response is what the client gets. It knows whether it has begun, and gives up
// a client that takes nothing.
type response struct {
	http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
	arrived time.Time // the request
	status  int       // 0: the response has not begun
}

func newResponse(w http.ResponseWriter, stall time.Duration) *response {
	r := &response{ResponseWriter: w, control: http.NewResponseController(w), stall: stall, arrived: time.Now()}
	// What the worker does not send is not added.
	w.Header()["Date"], w.Header()["Content-Type"] = nil, nil
	r.extend()
	return r
}

func (r *response) extend() {
	_ = r.control.SetWriteDeadline(time.Now().Add(r.stall)) // a test's recorder has none
}

func (r *response) WriteHeader(status int) {
	r.extend()
	if status >= http.StatusOK && r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *response) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	r.extend()
	return r.ResponseWriter.Write(p) //nolint:gosec // what the worker sends, of the type it says
}

// Unwrap is for http.ResponseController.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

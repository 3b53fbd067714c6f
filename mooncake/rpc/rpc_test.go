package rpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ollamoon/mooncake/structpack"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const function = "mooncake::WrappedMasterService::Ping"

// patience bounds what is expected to happen at once.
const patience = 20 * time.Second

// A peer is the other end of connections, under the test's control: it answers as
// a test says, also as no server does.
type peer struct {
	net.Listener
	serving sync.WaitGroup
}

// listen starts a peer that hands each connection to serve.
func listen(t *testing.T, serve func(net.Conn)) *peer {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{Listener: l}
	p.serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p.serving.Go(func() {
				defer func() { _ = conn.Close() }()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.serving.Wait()
	})
	return p
}

func dial(t *testing.T, p *peer, opts Options) *Conn {
	t.Helper()
	c := New(p.Addr().String(), opts)
	t.Cleanup(func() { _ = c.Close() }) // before the peer's
	return c
}

// readRequest returns the sequence number and the body of the next request.
func readRequest(r io.Reader) (uint32, []byte, error) {
	header := make([]byte, requestHeaderBytes)
	if _, err := io.ReadFull(r, header); err != nil {
		return 0, nil, err
	}
	body := make([]byte, binary.LittleEndian.Uint32(header[12:]))
	_, err := io.ReadFull(r, body)
	return binary.LittleEndian.Uint32(header[4:]), body, err
}

func answer(seq uint32, code uint8, body []byte) []byte {
	frame := make([]byte, responseHeaderBytes)
	frame[0], frame[2] = magic, code
	binary.LittleEndian.PutUint32(frame[4:], seq)
	binary.LittleEndian.PutUint32(frame[8:], uint32(len(body))) //nolint:gosec // small
	return append(frame, body...)
}

// echo answers each request with its own body.
func echo(conn net.Conn) {
	for {
		seq, body, err := readRequest(conn)
		if err != nil {
			return
		}
		if _, err := conn.Write(answer(seq, 0, body)); err != nil {
			return
		}
	}
}

// silent reads everything and answers nothing.
func silent(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

func TestRequestIsFramedAsMooncakesClientDoes(t *testing.T) {
	body, err := hex.DecodeString("d91ef97c04fd800c800cff00026b320764656661756c74")
	if err != nil {
		t.Fatal(err)
	}
	got := Request("mooncake::WrappedMasterService::ExistKey", 2, body)
	if want := "1500000002000000095f38891700000000000000" + hex.EncodeToString(body); hex.EncodeToString(got) != want {
		t.Errorf("got  %x\nwant %s", got, want)
	}
}

func TestManyCallsShareOneConnection(t *testing.T) {
	c := dial(t, listen(t, echo), Options{})
	var calls sync.WaitGroup
	for i := range 100 {
		calls.Go(func() {
			body := bytes.Repeat([]byte{'a', 'b'}, 1+i*100)
			got, err := c.Call(t.Context(), function, body)
			if err != nil || !bytes.Equal(got, body) {
				t.Errorf("call %d: %d bytes, %v", i, len(got), err)
			}
		})
	}
	calls.Wait()
	if n := c.Dials(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestAnswersAreMatchedInAnyOrder(t *testing.T) {
	c := dial(t, listen(t, func(conn net.Conn) {
		seq1, body1, err1 := readRequest(conn)
		seq2, body2, err2 := readRequest(conn)
		if err := errors.Join(err1, err2); err != nil {
			t.Error(err)
			return
		}
		both := append(answer(seq2, 0, body2), answer(seq1, 0, body1)...)
		if _, err := conn.Write(both); err != nil {
			t.Error(err)
		}
	}), Options{})
	var calls sync.WaitGroup
	for _, body := range []string{"first", "second"} {
		calls.Go(func() {
			got, err := c.Call(t.Context(), function, []byte(body))
			if err != nil || string(got) != body {
				t.Errorf("%q, %v, want %q", got, err, body)
			}
		})
	}
	calls.Wait()
}

func TestACancelledCallEndsAtOnceAndItsAnswerIsDropped(t *testing.T) {
	received, release := make(chan struct{}), make(chan struct{})
	c := dial(t, listen(t, func(conn net.Conn) {
		seq, body, err := readRequest(conn)
		if err != nil {
			t.Error(err)
			return
		}
		close(received)
		<-release
		if _, err := conn.Write(answer(seq, 0, body)); err != nil {
			t.Error(err)
		}
		echo(conn)
	}), Options{})
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := c.Call(ctx, function, []byte("late"))
		result <- err
	}()
	<-received
	cancel()
	select {
	case err := <-result:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("the call waits on")
	}
	close(release)
	got, err := c.Call(t.Context(), function, []byte("next"))
	if err != nil || string(got) != "next" {
		t.Errorf("%q, %v", got, err)
	}
	if n := c.Dials(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestACallThatCannotBeSentIsCancelled(t *testing.T) {
	release := make(chan struct{})
	c := dial(t, listen(t, func(net.Conn) { <-release }), Options{})
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	var calls sync.WaitGroup
	for range 4 { // more than the kernel's buffers hold
		calls.Go(func() {
			if _, err := c.Call(ctx, function, make([]byte, 16<<20)); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
	}
	calls.Wait()
}

func TestASilentServerIsATimeout(t *testing.T) {
	c := dial(t, listen(t, silent), Options{Timeout: 100 * time.Millisecond})
	for want := uint64(1); want <= 2; want++ {
		if _, err := c.Call(t.Context(), function, nil); !errors.Is(err, ErrTimeout) {
			t.Error(err)
		}
		if n := c.Dials(); n != want {
			t.Errorf("%d connections, want %d", n, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	refusal := structpack.Encode(structpack.String, func(w *structpack.Writer) { w.String("invalid rpc arg") })
	wide := structpack.Encode(structpack.Struct(structpack.U16, structpack.String), func(w *structpack.Writer) {
		w.U16(1000)
		w.String("own")
	})
	for _, c := range []struct {
		code     uint8
		body     []byte
		want     ServerError
		sentinel error
	}{
		{4, refusal, ServerError{function, 4, "invalid rpc arg"}, ErrArguments},
		{11, refusal, ServerError{function, 11, "invalid rpc arg"}, ErrNoFunction},
		{10, []byte("?"), ServerError{function, 10, ""}, nil},
		{255, wide, ServerError{function, 1000, "own"}, nil},
		{255, refusal, ServerError{function, 255, ""}, nil},
	} {
		got := serverError(function, c.code, c.body)
		if *got != c.want || got.Unwrap() != c.sentinel { //nolint:errorlint // exactly this one
			t.Errorf("code %d: %+v, want %+v", c.code, got, c.want)
		}
	}
	conn := dial(t, listen(t, func(conn net.Conn) {
		for {
			seq, _, err := readRequest(conn)
			if err != nil {
				return
			}
			if _, err := conn.Write(answer(seq, 4, refusal)); err != nil {
				return
			}
		}
	}), Options{})
	for range 2 {
		_, err := conn.Call(t.Context(), function, nil)
		var refused *ServerError
		if !errors.As(err, &refused) || !errors.Is(err, ErrArguments) || refused.Message != "invalid rpc arg" {
			t.Error(err)
		}
	}
	if n := conn.Dials(); n != 1 {
		t.Errorf("a refusal costs the connection: %d were made", n)
	}
}

func TestABrokenConnectionEndsItsCallsAndTheNextConnects(t *testing.T) {
	var first sync.Once
	c := dial(t, listen(t, func(conn net.Conn) {
		broken := false
		first.Do(func() {
			_, _, err := readRequest(conn)
			broken = err == nil
		})
		if !broken {
			echo(conn)
		}
	}), Options{})
	if _, err := c.Call(t.Context(), function, nil); !errors.Is(err, ErrBroken) {
		t.Fatal(err)
	}
	if _, err := c.Call(t.Context(), function, nil); err != nil {
		t.Error(err)
	}
	if n := c.Dials(); n != 2 {
		t.Errorf("%d connections", n)
	}
}

func TestFramesThatAreNotReadEndTheConnection(t *testing.T) {
	large := make([]byte, responseHeaderBytes)
	large[0] = magic
	binary.LittleEndian.PutUint32(large[8:], 1<<20)
	attached := bytes.Clone(large)
	binary.LittleEndian.PutUint32(attached[8:], 1)
	binary.LittleEndian.PutUint32(attached[12:], 1<<32-1)
	for name, c := range map[string]struct {
		frame []byte
		want  error
	}{
		"another protocol": {[]byte("HTTP/1.1 400 Bad Request\r\n"), ErrProtocol},
		"too large":        {large, ErrProtocol},
		"attachment":       {attached, ErrProtocol},
		"half a header":    {large[:7], ErrBroken},
		"half a body":      {answer(1, 0, []byte("whole"))[:18], ErrBroken},
	} {
		t.Run(name, func(t *testing.T) {
			conn := dial(t, listen(t, func(conn net.Conn) {
				if _, _, err := readRequest(conn); err != nil {
					t.Error(err)
				}
				if _, err := conn.Write(c.frame); err != nil {
					t.Error(err)
				}
			}), Options{MaxFrame: 1 << 16})
			if _, err := conn.Call(t.Context(), function, nil); !errors.Is(err, c.want) {
				t.Error(err)
			}
		})
	}
}

func TestAttachmentsAndAnswersToNobodyAreSkipped(t *testing.T) {
	c := dial(t, listen(t, func(conn net.Conn) {
		seq, body, err := readRequest(conn)
		if err != nil {
			t.Error(err)
			return
		}
		stray := answer(seq+1000, 0, []byte("stray"))
		attached := answer(seq, 0, body)
		binary.LittleEndian.PutUint32(attached[12:], 3)
		attached = append(attached, "abc"...)
		if _, err := conn.Write(append(stray, attached...)); err != nil {
			t.Error(err)
		}
		echo(conn)
	}), Options{})
	for _, body := range []string{"first", "second"} {
		got, err := c.Call(t.Context(), function, []byte(body))
		if err != nil || string(got) != body {
			t.Errorf("%q, %v", got, err)
		}
	}
}

// FuzzReadResponse reads arbitrary bytes as frames.
func FuzzReadResponse(f *testing.F) {
	f.Add(answer(1, 0, []byte("body")))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		for {
			got, err := readResponse(r, 1<<16)
			if err != nil {
				if !errors.Is(err, ErrBroken) && !errors.Is(err, ErrProtocol) {
					t.Fatal(err)
				}
				return
			}
			if len(got.body) > len(data) {
				t.Fatalf("%d bytes out of %d", len(got.body), len(data))
			}
		}
	})
}

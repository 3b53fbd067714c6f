package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"ollamoon/internal/supervise"
	"ollamoon/prefix"
)

const (
	// startTimeout bounds the time until a contender's process is ready for calls.
	startTimeout = 30 * time.Second
	// callTimeout bounds a call; the longest takes a second on a machine that
	// does nothing else.
	callTimeout = 2 * time.Minute
	// leaveTimeout is how long a contender has for leaving the store.
	leaveTimeout = 10 * time.Second
)

// A contender is a process that does the work being measured.
type contender struct {
	name    string
	process *supervise.Process
	conn    net.Conn
	calls   *json.Encoder
	answers *bufio.Reader
	keys    prefix.Config // how it names pages
	record  record
}

// startContender starts a process that speaks the protocol. It connects to a
// socket in dir, whose path is the last argument that it gets.
func startContender(ctx context.Context, name, dir string, command supervise.Command) (*contender, error) {
	c, err := connectContender(ctx, name, dir, command)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return c, nil
}

func connectContender(ctx context.Context, name, dir string, command supervise.Command) (*contender, error) {
	path := filepath.Join(dir, name+".sock")
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	defer listener.Close() //nolint:errcheck // one connection is all that is needed
	command.Args = append(command.Args[:len(command.Args):len(command.Args)], path)
	process, err := supervise.Start(command)
	if err != nil {
		return nil, err
	}
	conn, err := acceptFrom(ctx, process, listener)
	if err != nil {
		process.Kill()
		return nil, fmt.Errorf("%w; its last output:\n%s", err, process.Tail())
	}
	return &contender{
		name: name, process: process, conn: conn,
		calls: json.NewEncoder(conn), answers: bufio.NewReader(conn),
	}, nil
}

// acceptFrom waits for the connection of a process, as long as there is hope.
func acceptFrom(ctx context.Context, process *supervise.Process, listener net.Listener) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	giveUp := func() { _ = listener.Close() } // a connection that is there stays
	defer context.AfterFunc(ctx, giveUp)()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-process.Done():
			giveUp()
		case <-ctx.Done():
		}
	}()
	conn, err := listener.Accept()
	if err != nil {
		err = errors.Join(process.Err(), ctx.Err(), err)
	}
	cancel()
	<-watched
	return conn, err
}

// call has the contender do something, and waits for it.
func (c *contender) call(ctx context.Context, what call) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Now()) })()
	var got answer
	err := ctx.Err()
	if err == nil {
		err = c.calls.Encode(what)
	}
	if err == nil {
		var line []byte
		if line, err = c.answers.ReadBytes('\n'); err == nil {
			err = json.Unmarshal(line, &got)
		}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return got, fmt.Errorf("%s: %s: %w", c.name, what.Op, ctx.Err())
	case err != nil:
		c.stop() // so that its output is complete
		return got, fmt.Errorf("%s: %s: %w; its last output:\n%s", c.name, what.Op, err, c.process.Tail())
	case got.Error != "":
		return got, fmt.Errorf("%s: %s: %w", c.name, what.Op, errors.New(got.Error))
	}
	return got, nil
}

// stop ends the contender's input, gives it time to leave the store, and returns
// when its process is gone.
func (c *contender) stop() {
	_ = c.conn.Close() // read or not, nothing more is expected
	select {
	case <-c.process.Done():
	case <-time.After(leaveTimeout):
		c.process.Stop(time.Second)
	}
}

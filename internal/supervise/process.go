package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"time"
)

var (
	// ErrExited: the child ended when it should have gone on.
	ErrExited = errors.New("supervise: process exited")
	// ErrLoopback: this system has no way to keep the child's ports on loopback.
	ErrLoopback = errors.New("supervise: cannot keep ports on loopback")
)

// tailBytes of a child's output are kept for messages.
const tailBytes = 16 << 10

// pipeWait bounds the wait for output of a child that is over, which something
// that it started may still hold open.
const pipeWait = 2 * time.Second

// A Command says what to run.
type Command struct {
	Path string   // the program, not searched for
	Args []string // its arguments
	Env  []string // added to the parent's environment
	// Environ, if not nil, is the whole environment.
	Environ []string
	Dir     string    // working directory, the parent's if empty
	Log     io.Writer // also receives all output, if not nil
	// Stdout and Stderr, if not nil, receive that output in place of the tail and
	// of Log. A file is handed to the child itself.
	Stdout, Stderr io.Writer
	// Loopback keeps every port that the child listens on off the network.
	Loopback bool
}

func (c Command) environ() []string {
	if c.Environ != nil {
		return c.Environ
	}
	return os.Environ()
}

// A Process is a child process. Its methods are safe for concurrent use.
type Process struct {
	cmd  *exec.Cmd
	tail tail
	done chan struct{}
	err  error // how it ended; valid when done is closed
}

// Start starts the child. Its owner calls Stop or Kill, or waits for Done.
func Start(c Command) (*Process, error) {
	p := &Process{
		cmd: &exec.Cmd{
			Path:      c.Path,
			Args:      append([]string{c.Path}, c.Args...),
			Env:       append(slices.Clone(c.environ()), c.Env...),
			Dir:       c.Dir,
			WaitDelay: pipeWait,
		},
		done: make(chan struct{}),
	}
	var output io.Writer = &p.tail
	if c.Log != nil {
		output = io.MultiWriter(&p.tail, c.Log)
	}
	p.cmd.Stdout, p.cmd.Stderr = output, output
	if c.Stdout != nil {
		p.cmd.Stdout = c.Stdout
	}
	if c.Stderr != nil {
		p.cmd.Stderr = c.Stderr
	}
	dieWithParent(p.cmd)

	started := make(chan error)
	go p.run(c.Loopback, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.Path, err)
	}
	return p, nil
}

// run is the child's life. Its thread is never given back: the kernel ends the
// child with the thread that started it, and a filter for loopback stays on it.
func (p *Process) run(loopback bool, started chan<- error) {
	runtime.LockOSThread()
	release := func() {}
	if loopback {
		stop, err := keepBindsOnLoopback()
		if err != nil {
			started <- fmt.Errorf("%w: %w", ErrLoopback, err)
			return
		}
		release = stop
	}
	if err := p.cmd.Start(); err != nil {
		release()
		started <- err
		return
	}
	unwatch := killWithParent(p.cmd.Process.Pid)
	started <- nil
	err := p.cmd.Wait()
	unwatch()
	release()
	if err == nil || errors.Is(err, exec.ErrWaitDelay) {
		p.err = ErrExited
	} else {
		p.err = fmt.Errorf("%w: %w", ErrExited, err)
	}
	close(p.done)
}

// PID returns the child's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the child is over and its output
// has been read.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns nil while the child runs, then an error that wraps ErrExited and
// says how it ended.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Signal sends the child a signal.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// State returns how the child ended; it is nil before Done.
func (p *Process) State() *os.ProcessState {
	select {
	case <-p.done:
		return p.cmd.ProcessState
	default:
		return nil
	}
}

// Tail returns the end of what the child wrote to its standard output and error.
func (p *Process) Tail() string { return p.tail.String() }

// Stop asks the child to end, kills it when it has not ended after the grace,
// and returns when it is over.
func (p *Process) Stop(grace time.Duration) {
	if terminate(p.cmd.Process) == nil {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-p.done:
			return
		case <-timer.C:
		}
	}
	p.Kill()
}

// Kill kills the child and returns when it is over.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may be over already
	<-p.done
}

// Ready calls probe every interval until it returns nil. It gives up when the
// child ends, with an error that wraps ErrExited and has the last output, and when
// ctx is done, with the probe's last error.
func (p *Process) Ready(ctx context.Context, interval time.Duration, probe func(context.Context) error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		err := probe(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%w; its last output:\n%s", p.err, p.Tail())
		case <-ctx.Done():
			return fmt.Errorf("%w; the last probe: %w; the process's last output:\n%s", context.Cause(ctx), err, p.Tail())
		case <-ticker.C:
		}
	}
}

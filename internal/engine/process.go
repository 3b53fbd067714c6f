package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"ollamoon/internal/supervise"
)

// ErrSocketPath: the path of the engine's socket is longer than a socket's may be.
var ErrSocketPath = errors.New("engine: path of a socket is too long")

// readyInterval is the time between two questions whether the model is loaded.
const readyInterval = 20 * time.Millisecond

// maxSocketPath is what every system takes as the path of a socket.
const maxSocketPath = 100

// Config says how to run the real llama-server behind a stand-in.
type Config struct {
	Binary string    // the real llama-server
	Args   Arguments // as its user gave them
	// Slots is the folder for slot files.
	Slots string
	// Folder for the process's socket, the caller's and closed to others. Without
	// one the process has a folder of its own.
	Folder string
	// Stdout and Stderr get what the process prints there; where nil, it goes into
	// the Process's Tail.
	Stdout, Stderr io.Writer
}

// A Process is a running llama-server with its Client. Its owner calls Stop.
type Process struct {
	*Client
	*supervise.Process
	Listener Listener // where its user asked it to serve
	Socket   string

	folder string // to be removed
}

// SocketIn returns the path of the socket in a process's folder.
func SocketIn(folder string) string { return filepath.Join(folder, "engine.sock") }

// Start starts the engine; it may still load its model when Start returns.
func Start(config Config) (*Process, error) {
	listener, err := config.Args.Listener()
	if err != nil {
		return nil, err
	}
	p := &Process{Listener: listener}
	folder := config.Folder
	if folder == "" {
		if folder, err = os.MkdirTemp("", "ollamoon-"); err != nil {
			return nil, fmt.Errorf("starting the engine: %w", err)
		}
		p.folder = folder
	}
	p.Socket = SocketIn(folder)
	if len(p.Socket) > maxSocketPath {
		err = fmt.Errorf("%w: %s", ErrSocketPath, p.Socket)
	} else {
		behind := config.Args.Behind(p.Socket, config.Slots)
		p.Process, err = supervise.Start(supervise.Command{
			Path: config.Binary, Args: behind.Args, Environ: behind.Env, Stdout: config.Stdout, Stderr: config.Stderr,
		})
	}
	if err != nil {
		p.removeFolder()
		return nil, fmt.Errorf("starting the engine: %w", err)
	}
	key := ""
	if len(listener.APIKeys) > 0 {
		key = listener.APIKeys[0]
	}
	p.Client = NewClient(p.Socket, listener.Prefix, key)
	return p, nil
}

// Listens returns when the engine takes connections, which it does before it
// loads its model, or with an error when it ends before that or ctx is done.
func (p *Process) Listens(ctx context.Context) error {
	return p.Process.Ready(ctx, readyInterval, func(ctx context.Context) error {
		c, err := new(net.Dialer).DialContext(ctx, "unix", p.Socket)
		if err != nil {
			return err
		}
		return c.Close()
	})
}

// Ready returns when the engine has loaded its model, or with an error when it
// ends before that or ctx is done.
func (p *Process) Ready(ctx context.Context) error {
	return p.Process.Ready(ctx, readyInterval, p.Health)
}

// Stop ends the engine, within the grace by itself, and removes its socket.
func (p *Process) Stop(grace time.Duration) {
	p.Process.Stop(grace)
	p.HTTP.CloseIdleConnections()
	p.removeFolder()
}

func (p *Process) removeFolder() {
	if p.folder != "" {
		_ = os.RemoveAll(p.folder) // a leftover socket harms nobody
	}
}

package engine

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"ollamoon/internal/supervise"
)

// readyInterval is the time between two questions whether the model is loaded.
const readyInterval = 20 * time.Millisecond

// Config says how to run the real llama-server behind a stand-in.
type Config struct {
	Binary string    // the real llama-server
	Args   Arguments // as its user gave them
	// Slots is the folder for slot files. The process's socket gets a folder of
	// its own.
	Slots string
	Log   io.Writer // gets all that the process prints
}

// A Process is a running llama-server with its Client. Its owner calls Stop.
type Process struct {
	*Client
	*supervise.Process
	Listener Listener // where its user asked it to serve
	Socket   string

	folder string
}

// Start starts the engine; it may still load its model when Start returns.
func Start(config Config) (*Process, error) {
	listener, err := config.Args.Listener()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "ollamoon-")
	if err != nil {
		return nil, fmt.Errorf("starting the engine: %w", err)
	}
	p := &Process{Listener: listener, folder: folder, Socket: filepath.Join(folder, "engine.sock")}
	behind := config.Args.Behind(p.Socket, config.Slots)
	p.Process, err = supervise.Start(supervise.Command{
		Path: config.Binary, Args: behind.Args, Env: behind.Env, Log: config.Log,
	})
	if err != nil {
		_ = os.RemoveAll(folder) // nothing is in it
		return nil, fmt.Errorf("starting the engine: %w", err)
	}
	key := ""
	if len(listener.APIKeys) > 0 {
		key = listener.APIKeys[0]
	}
	p.Client = NewClient(p.Socket, listener.Prefix, key)
	return p, nil
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
	_ = os.RemoveAll(p.folder) // a leftover socket harms nobody
}

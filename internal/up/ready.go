package up

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"ollamoon/internal/supervise"
)

const (
	// probeInterval is the time between two looks at whether a child is ready.
	probeInterval = 50 * time.Millisecond
	// probeTimeout bounds one question to a child.
	probeTimeout = 5 * time.Second
	// maxAnswer bounds what is read of an answer.
	maxAnswer = 8 << 20
)

// ErrPort: something else has a port that a child was to have.
var ErrPort = errors.New("up: the port is taken")

var errStatus = errors.New("up: unexpected answer")

// free returns an error that wraps ErrPort when nobody can listen at an address.
func free(ctx context.Context, address string) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrPort, address, err)
	}
	return l.Close()
}

// run starts a child and returns when it answers.
func run(ctx context.Context, program string, c Child, log io.Writer, client *http.Client) (*supervise.Process, error) {
	p, err := supervise.Start(supervise.Command{Path: program, Args: c.Args, Environ: environ(), Log: log})
	if err != nil {
		return nil, err
	}
	err = p.Ready(ctx, probeInterval, func(ctx context.Context) error {
		return get(ctx, client, c.URL()+"/health", nil)
	})
	if err == nil {
		return p, nil
	}
	ended := errors.Is(err, supervise.ErrExited)
	p.Kill()
	if taken := free(context.WithoutCancel(ctx), c.Address); ended && taken != nil {
		err = errors.Join(taken, err)
	}
	return nil, fmt.Errorf("starting %s: %w", c.Name, err)
}

// A sharing is what a worker says of what it shares.
type sharing struct {
	Sharing bool
	Reason  string
}

// get decodes an answer with status 200 into answer, if that is not nil.
func get(ctx context.Context, client *http.Client, url string, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case err != nil:
		return fmt.Errorf("reading %s: %w", url, err)
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("%w: %s: status %d: %.200s", errStatus, url, response.StatusCode, data)
	case answer == nil:
		return nil
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("reading %s: %w", url, err)
	}
	return nil
}

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"ollamoon/internal/supervise"
)

const (
	// modelTimeout bounds the time until a llama-server serves, and one request.
	modelTimeout = 3 * time.Minute
	// modelInterval is the time between two looks at whether something is so.
	modelInterval = 20 * time.Millisecond
	// modelGrace is what a llama-server gets to end by itself.
	modelGrace = 10 * time.Second
	// startAttempts bounds how often one is started: another process may take its
	// port first.
	startAttempts = 3
	// maxAnswer bounds an answer.
	maxAnswer = 16 << 20
)

// A llama is a running llama-server, or one that the stand-in runs.
type llama struct {
	name    string
	process *supervise.Process
	url     string
	http    *http.Client
}

// startLlama starts a llama-server on a free port of loopback and returns when
// it serves.
func startLlama(ctx context.Context, name string, command supervise.Command, args ...string) (*llama, error) {
	ctx, cancel := context.WithTimeout(ctx, modelTimeout)
	defer cancel()
	command.Environ = withoutSettings(os.Environ())
	for attempt := 1; ; attempt++ {
		l, err := tryLlama(ctx, name, command, args)
		if err == nil {
			return l, nil
		}
		if attempt == startAttempts || !errors.Is(err, supervise.ErrExited) {
			return nil, fmt.Errorf("starting %s: %w", name, err)
		}
	}
}

func tryLlama(ctx context.Context, name string, command supervise.Command, args []string) (*llama, error) {
	ports, err := supervise.FreePorts(ctx, 1)
	if err != nil {
		return nil, err
	}
	port := strconv.Itoa(ports[0])
	command.Args = slices.Concat(command.Args, args, []string{"--host", "127.0.0.1", "--port", port})
	process, err := supervise.Start(command)
	if err != nil {
		return nil, err
	}
	l := &llama{name: name, process: process, url: "http://127.0.0.1:" + port}
	// A llama-server closes a connection after an answer that it streams, and does
	// not say so before.
	l.http = &http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}
	if err := process.Ready(ctx, modelInterval, l.healthy); err != nil {
		l.stop()
		return nil, err
	}
	return l, nil
}

// withoutSettings is an environment in which llama-server and the stand-in have
// only the settings that they are given.
func withoutSettings(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		return strings.HasPrefix(v, "LLAMA_") || strings.HasPrefix(v, "OLLAMOON_")
	})
}

// stop ends the server.
func (l *llama) stop() {
	l.process.Stop(modelGrace)
	l.http.CloseIdleConnections()
}

func (l *llama) healthy(ctx context.Context) error {
	return l.call(ctx, http.MethodGet, "/health", nil, nil)
}

// send sends a JSON body, if not nil. The caller closes the answer's, which has
// status 200.
func (l *llama) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", l.name, path, err)
		}
		content = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, l.url+path, content)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", l.name, path, err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := l.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", l.name, path, err)
	}
	if response.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(response.Body, 500)) // what there is
		_ = response.Body.Close()
		return nil, fmt.Errorf("%s: %s: %w: status %d: %s", l.name, path, errUnexpected, response.StatusCode, said)
	}
	return response, nil
}

// call sends a JSON body, if not nil, and decodes the answer into answer, if not
// nil.
func (l *llama) call(ctx context.Context, method, path string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, modelTimeout)
	defer cancel()
	response, err := l.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err == nil && answer != nil {
		err = json.Unmarshal(data, answer)
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w", l.name, path, err)
	}
	return nil
}

// tokenize returns the tokens of a text.
func (l *llama) tokenize(ctx context.Context, text string) ([]int32, error) {
	var answer struct{ Tokens []int32 }
	err := l.call(ctx, http.MethodPost, "/tokenize", map[string]any{"content": text, "add_special": true}, &answer)
	return answer.Tokens, err
}

// detokenize returns the text of tokens.
func (l *llama) detokenize(ctx context.Context, tokens []int32) (string, error) {
	var answer struct{ Content string }
	err := l.call(ctx, http.MethodPost, "/detokenize", map[string]any{"tokens": tokens}, &answer)
	return answer.Content, err
}

// erase empties the server's only slot.
func (l *llama) erase(ctx context.Context) error {
	return l.call(ctx, http.MethodPost, "/slots/0?action=erase", nil, nil)
}

// build is the build of llama-server.
func (l *llama) build(ctx context.Context) (string, error) {
	var props struct {
		Build string `json:"build_info"`
	}
	err := l.call(ctx, http.MethodGet, "/props", nil, &props)
	return props.Build, err
}

// A sharingStatus is what a stand-in says of itself, as far as it matters here.
type sharingStatus struct {
	Sharing   bool
	Reason    string
	Namespace string
	Pages     struct {
		LookedUp       int64 `json:"looked_up"`
		Hit            int64
		BytesLoaded    int64 `json:"bytes_loaded"`
		Published      int64
		BytesPublished int64 `json:"bytes_published"`
	}
}

// until asks a stand-in for its status until it is as wanted.
func (l *llama) until(ctx context.Context, what string, wanted func(sharingStatus) bool) (sharingStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, modelTimeout)
	defer cancel()
	for {
		var s sharingStatus
		if err := l.call(ctx, http.MethodGet, "/ollamoon/status", nil, &s); err != nil {
			return s, err
		}
		if wanted(s) {
			return s, nil
		}
		select {
		case <-ctx.Done():
			return s, fmt.Errorf("%s: waiting until %s: %w; its status: %+v; its last output:\n%s", l.name, what, ctx.Err(), s, l.process.Tail())
		case <-time.After(modelInterval):
		}
	}
}

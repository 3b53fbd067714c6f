//go:build linux

package netlab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ollamoon/internal/cluster"
	"ollamoon/internal/engine"
	"ollamoon/internal/standin"
	"ollamoon/internal/supervise"
	"ollamoon/internal/worker"
)

// deadline is what a worker gives its store: several times what computing a page
// takes on a slow machine, so that a load that takes longer does not pay.
const deadline = 4 * time.Second

// port is where workers and the router listen, each on its own machine.
const port = "8080"

// A site is five machines: the store's master and owner, a worker that prefills,
// one that decodes, and a router in front of this one. Between this one and the
// master is a long way, which passes a sixth machine.
type site struct {
	t        *testing.T
	programs engine.Programs
	ollamoon string // the program
	secret   string // its file
	stock    string // URL of a llama-server without Ollamoon, at the test
	store    *cluster.Cluster
	client   *http.Client

	master, way, owner, prefill, decode, router *Machine
}

func newSite(t *testing.T) *site {
	t.Helper()
	_, m := newLab(t, "master", "owner", "prefill", "decode", "router", "way")
	s := &site{t: t, master: m[0], owner: m[1], prefill: m[2], decode: m[3], router: m[4], way: m[5]}
	var err error
	if s.programs, err = engine.Find(); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	s.client = &http.Client{Transport: transport, Timeout: wait}
	s.build()
	if err := s.decode.Shape(Gbit); err != nil {
		t.Fatal(err)
	}
	s.startStore()
	s.startWorkers()
	start(t, s.router, supervise.Command{Path: s.ollamoon, Args: []string{
		"route", "--host", s.router.Address.String(), "--port", port, "--secret-file", s.secret, "decode=" + url(s.decode),
	}})
	s.until("the router is ready", func() bool { return s.healthy(url(s.router)) })
	return s
}

func url(m *Machine) string { return "http://" + m.Address.String() + ":" + port }

// build builds the program, and writes the secret.
func (s *site) build() {
	s.t.Helper()
	s.ollamoon, s.secret = filepath.Join(s.t.TempDir(), "ollamoon"), filepath.Join(s.t.TempDir(), "secret")
	build := exec.CommandContext(s.t.Context(), "go", "build", "-o", s.ollamoon, "ollamoon/cmd/ollamoon") //nolint:gosec // this project
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	if err := os.WriteFile(s.secret, []byte("a secret of thirty-two characters"), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) startStore() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), wait)
	defer cancel()
	var err error
	s.store, err = cluster.Start(ctx, cluster.Config{
		Metadata: cluster.MetadataP2P, SegmentBytes: 512 << 20, ClientTTL: 3 * time.Second,
		On: func(name string) cluster.Place {
			m := s.owner
			if name == "master" {
				m = s.master
			}
			return cluster.Place{Address: m.Address.String(), Command: m.Command}
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.store.Close)
}

// startWorkers starts both workers, and the llama-server that they are held
// against. Answers are exact, so that they have to be equal.
func (s *site) startWorkers() {
	s.t.Helper()
	args := func(host string) []string {
		return []string{"-m", s.programs.Model, "-ngl", "0", "-t", "1", "-c", "1024", "-np", "1", "--cache-ram", "0", "--host", host, "--port", port}
	}
	work := func(m *Machine, master string, more ...string) {
		start(s.t, m, supervise.Command{
			Path: s.ollamoon, Args: append(append([]string{"llama-server"}, args(m.Address.String())...), more...),
			Env: []string{
				"HOME=" + s.t.TempDir(), "OLLAMOON_BINARY=" + s.programs.Binary, "OLLAMOON_EXACT=true", "OLLAMOON_SECRET_FILE=" + s.secret,
				"OLLAMOON_STORE=mooncake://" + master + "?metadata=" + s.store.Metadata() + "&shared_memory=off",
			},
		})
	}
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	start(s.t, s.way, supervise.Command{Path: self, Env: []string{roleVariable + "=relay " + s.store.Master()}})
	work(s.prefill, s.store.Master(), "--ollamoon-role", "prefill")
	work(s.decode, net.JoinHostPort(s.way.Address.String(), serverPort), "--ollamoon-role", "decode", "--ollamoon-prefill", url(s.prefill), "--ollamoon-deadline", deadline.String())
	s.stock = "http://127.0.0.1:" + port
	stock, err := supervise.Start(supervise.Command{Path: s.programs.Binary, Args: args("127.0.0.1")})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(stock.Kill)
	s.until("the workers share and the llama-server is there", func() bool {
		return s.healthy(s.stock) && s.status(s.prefill).Sharing && s.status(s.decode).Sharing
	})
}

// until waits for a condition.
func (s *site) until(what string, holds func() bool) {
	s.t.Helper()
	for end := time.Now().Add(wait); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("not in %v: %s", wait, what)
		}
	}
}

// call makes a request, with a body if there is one.
func (s *site) call(address string, body any) (http.Header, []byte, error) {
	method, data := http.MethodGet, []byte(nil)
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return nil, nil, err
		}
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(s.t.Context(), method, address, bytes.NewReader(data))
	if err != nil {
		return nil, nil, err
	}
	answer, err := s.client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // a test
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, text) //nolint:err113 // a test
	}
	return answer.Header, text, err
}

func (s *site) healthy(address string) bool {
	_, _, err := s.call(address+"/health", nil)
	return err == nil
}

// status is what a worker says of itself; nothing while it does not answer.
func (s *site) status(m *Machine) (status standin.Status) {
	s.t.Helper()
	if _, text, err := s.call(url(m)+"/ollamoon/status", nil); err == nil {
		if err := json.Unmarshal(text, &status); err != nil {
			s.t.Fatal(err)
		}
	}
	return status
}

// A prompt, and what a llama-server without Ollamoon answers to it.
type prompt struct {
	tokens []int32
	want   answer
}

// An answer is greedy tokens with their likeliest alternatives.
type answer struct {
	Content       string
	Probabilities json.RawMessage `json:"completion_probabilities"`
	loaded        bool            // from the store
	took, lookup  time.Duration
}

// prompts makes prompts of so many tokens that begin differently.
func (s *site) prompts(n, tokens int, about string) []prompt {
	s.t.Helper()
	made := make([]prompt, n)
	for i := range made {
		var text strings.Builder
		for line := range tokens / 4 {
			fmt.Fprintf(&text, "%s %d has entry number %d. ", about, i, line)
		}
		_, body, err := s.call(s.stock+"/tokenize", map[string]any{"content": text.String(), "add_special": true})
		if err != nil {
			s.t.Fatal(err)
		}
		var got struct{ Tokens []int32 }
		if err := json.Unmarshal(body, &got); err != nil || len(got.Tokens) < tokens {
			s.t.Fatal(len(got.Tokens), err)
		}
		made[i].tokens = got.Tokens[:tokens]
		made[i].want = s.ask(s.stock, made[i].tokens)
	}
	return made
}

// ask has a server complete a prompt.
func (s *site) ask(address string, tokens []int32) answer {
	s.t.Helper()
	begin := time.Now()
	header, text, err := s.call(address+"/completion", map[string]any{"prompt": tokens, "n_predict": 8, "temperature": 0, "n_probs": 3})
	if err != nil {
		s.t.Fatal(err)
	}
	a := answer{took: time.Since(begin), loaded: strings.Contains(header.Get(worker.TokensHeader), "store=")}
	var ms float64
	if _, err := fmt.Sscanf(header.Get(worker.TimingHeader), "lookup;dur=%f,", &ms); err == nil {
		a.lookup = time.Duration(ms * float64(time.Millisecond))
	}
	if err := json.Unmarshal(text, &a); err != nil || len(a.Probabilities) < 100 {
		s.t.Fatalf("%s: %v", text, err)
	}
	return a
}

// routed asks the router, and checks that the answer is the stock one.
func (s *site) routed(p prompt) answer {
	s.t.Helper()
	a := s.ask(url(s.router), p.tokens)
	if a.Content != p.want.Content || !bytes.Equal(a.Probabilities, p.want.Probabilities) {
		s.t.Errorf("another answer than a llama-server's:\n%q %s\n%q %s", a.Content, a.Probabilities, p.want.Content, p.want.Probabilities)
	}
	return a
}

// publish has the prefill worker compute prompts, and waits until their pages are
// in the store.
func (s *site) publish(prompts ...prompt) {
	s.t.Helper()
	for _, p := range prompts {
		before := s.status(s.prefill).Pages.PagesPublished
		s.ask(url(s.prefill), p.tokens)
		s.until("its pages are published", func() bool {
			return s.status(s.prefill).Pages.PagesPublished >= before+int64(len(p.tokens)/worker.DefaultPageTokens)
		})
	}
}

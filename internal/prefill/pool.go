package prefill

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ollamoon/internal/trust"
)

// Defaults of a Pool.
const (
	infoTime   = time.Second      // for a member to say how much it has to do
	stallTime  = 5 * time.Second  // without a line
	leastTime  = 2 * time.Second  // that a member is given however short the prompt
	firstPause = time.Second      // that a member that failed is left alone
	mostPause  = 30 * time.Second // after many failures
	tryAfter   = 8                // prompts that a member was expected to be too slow for
	maxLine    = 64 << 10
)

// Config is what a Pool works with.
type Config struct {
	// URLs are the members', without Path.
	URLs []string
	// Identity is what the asking side shares.
	Identity Identity
	// Secret is what both sides have in common; it may be empty.
	Secret trust.Secret
	// Stall is how long a member may say nothing; 0 stands for 5 s.
	Stall time.Duration
	// Client makes the requests; nil stands for one of the pool's own.
	Client *http.Client
	Logger *slog.Logger
}

// A Pool asks prefill workers. It is safe for concurrent use.
type Pool struct {
	config   Config
	members  []*member
	identity atomic.Pointer[Identity]
}

// A member is a prefill worker.
type member struct {
	url string
	mu  struct {
		sync.Mutex
		failures int
		until    time.Time // left alone till then
		err      error     // the last failure
		asked    int64
		done     int64
		slow     int // how often in a row it has been expected to be too slow
		vain     int // tries in a row that it was too slow in
	}
}

// New returns a Pool.
func New(config Config) (*Pool, error) {
	if len(config.URLs) == 0 {
		return nil, errors.New("prefill: a pool needs the URL of at least one prefill worker, such as http://10.0.0.2:8080")
	}
	if config.Stall == 0 {
		config.Stall = stallTime
	}
	if config.Client == nil {
		config.Client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute}}
	}
	p := &Pool{config: config}
	p.Share(config.Identity)
	for _, u := range config.URLs {
		if !strings.HasPrefix(u, "http://") && !strings.HasPrefix(u, "https://") {
			return nil, fmt.Errorf("prefill: %q is no URL of a prefill worker, such as http://10.0.0.2:8080", u)
		}
		p.members = append(p.members, &member{url: strings.TrimSuffix(u, "/")})
	}
	return p, nil
}

// Share sets what the asking side shares from now on.
func (p *Pool) Share(identity Identity) { p.identity.Store(&identity) }

// Close closes what is open to the members.
func (p *Pool) Close() { p.config.Client.CloseIdleConnections() }

// Check asks all members what they are. The error wraps ErrMismatch when one of
// them names pages in another way; one that does not answer is told to the log
// only, since it may come.
func (p *Pool) Check(ctx context.Context) error {
	for _, m := range p.members {
		_, err := p.info(ctx, m)
		if errors.Is(err, ErrMismatch) {
			return err
		}
		if err != nil {
			p.config.Logger.Warn("a prefill worker does not answer yet", "url", m.url, "error", err)
		}
	}
	return nil
}

// Prefill has the pages of a tenant's prompt computed and published up to a token, of
// which so many are there. Local is what computing them here is expected to take;
// 0 is not known. It returns for how many tokens pages are there now. The error is
// ErrNotWorth or wraps another of this package's, or is the context's.
func (p *Pool) Prefill(ctx context.Context, tenant string, tokens []int32, have, end int, local time.Duration) (int, error) {
	best, info, err := p.choose(ctx, end-have)
	if err != nil {
		return have, err
	}
	trying := local > 0 && info.expected(end-have) >= local
	if trying && !best.tries(info) {
		return have, ErrNotWorth
	}
	began := time.Now()
	if local > 0 {
		most := 2 * local
		if !trying {
			most = max(leastTime, most)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, most,
			fmt.Errorf("%w: %s takes more than twice the %v that it takes here", ErrSlow, best.url, local.Round(time.Millisecond)))
		defer cancel()
	}
	published, err := p.ask(ctx, best, tenant, tokens)
	if trying {
		best.tried(err == nil && time.Since(began) < local)
	}
	return max(have, published), best.did(ctx, err)
}

// choose returns the member that is expected to be done first with so many
// tokens, and what it says of itself.
func (p *Pool) choose(ctx context.Context, tokens int) (*member, Info, error) {
	type offer struct {
		info Info
		err  error
	}
	offers := make([]offer, len(p.members))
	var asking sync.WaitGroup
	for i, m := range p.members {
		asking.Go(func() {
			if offers[i].err = m.alone(); offers[i].err == nil {
				offers[i].info, offers[i].err = p.info(ctx, m)
			}
		})
	}
	asking.Wait()
	best := -1
	var reasons []error
	for i, o := range offers {
		if o.err != nil {
			reasons = append(reasons, o.err)
			continue
		}
		if best < 0 || o.info.expected(tokens) < offers[best].info.expected(tokens) {
			best = i
		}
	}
	if best < 0 {
		return nil, Info{}, fmt.Errorf("%w: %w", ErrNobody, errors.Join(reasons...))
	}
	return p.members[best], offers[best].info, nil
}

// info asks a member what it is.
func (p *Pool) info(ctx context.Context, m *member) (Info, error) {
	asking, cancel := context.WithTimeout(ctx, infoTime)
	defer cancel()
	nonce := rand.Text()
	var info Info
	response, err := p.send(asking, m, http.MethodGet, nil, nonce)
	if err == nil {
		err = json.NewDecoder(io.LimitReader(response.Body, maxLine)).Decode(&info)
		_ = response.Body.Close()
	}
	if err == nil && len(p.config.Secret) > 0 {
		err = p.config.Secret.Check(nonce, response.Header.Get(trust.ProofHeader))
	}
	if err == nil {
		err = p.identity.Load().Matches(info.Identity)
	}
	if err != nil {
		err = fmt.Errorf("asking %s: %w", m.url, err)
		return Info{}, m.did(ctx, err)
	}
	return info, nil
}

// send sends a request and returns its answer if that is a good one.
func (p *Pool) send(ctx context.Context, m *member, method string, body []byte, nonce string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, m.url+Path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if len(p.config.Secret) > 0 {
		request.Header.Set(trust.NonceHeader, nonce)
		p.config.Secret.Sign(request, "", time.Now())
	}
	response, err := p.config.Client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFailed, err)
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer response.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(response.Body, 500))
	kind := ErrFailed
	if response.StatusCode == http.StatusConflict {
		kind = ErrMismatch
	}
	return nil, fmt.Errorf("%w: status %d: %s", kind, response.StatusCode, bytes.TrimSpace(said))
}

// ask has a prompt computed by a member and returns for how many tokens it told
// that pages were published.
func (p *Pool) ask(ctx context.Context, m *member, tenant string, tokens []int32) (published int, err error) {
	m.mu.Lock()
	m.mu.asked++
	m.mu.Unlock()
	body, err := json.Marshal(ask{*p.identity.Load(), tenant, tokens})
	if err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	stalled := time.AfterFunc(p.config.Stall, func() {
		stop(fmt.Errorf("%w: %s has said nothing for %v", ErrSlow, m.url, p.config.Stall))
	})
	defer stalled.Stop()
	response, err := p.send(ctx, m, http.MethodPost, body, rand.Text())
	if err != nil {
		return 0, because(ctx, err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		stalled.Reset(p.config.Stall)
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return published, fmt.Errorf("%w: %s says %.100q", ErrFailed, m.url, lines.Bytes())
		}
		published = max(published, l.Published)
		switch {
		case l.Error != "":
			return published, fmt.Errorf("%w: %s says %s", ErrFailed, m.url, l.Error)
		case l.Done:
			return published, nil
		}
	}
	if err := lines.Err(); err != nil {
		return published, because(ctx, fmt.Errorf("%w: %s: %w", ErrFailed, m.url, err))
	}
	return published, fmt.Errorf("%w: %s ended in the middle", ErrFailed, m.url)
}

// because returns why a request failed: the context's cause, when it ended.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// alone returns an error while a member is left alone.
func (m *member) alone() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Now().Before(m.mu.until) {
		return fmt.Errorf("%s is left alone after %w", m.url, m.mu.err)
	}
	return nil
}

// tries reports whether a member is asked though it is expected to be too slow: what
// made it so may have passed, and only what it computes tells. One that has much to
// do is not.
func (m *member) tries(info Info) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if info.Outstanding > 0 {
		return false
	}
	m.mu.slow++
	if m.mu.slow <= tryAfter<<min(m.mu.vain, 10) {
		return false
	}
	m.mu.slow = 0
	return true
}

// tried notes whether a member that was expected to be too slow was not. The more
// often it was, the later it is tried again.
func (m *member) tried(quick bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.vain++; quick {
		m.mu.vain = 0
	}
}

// did notes how a request to a member ended, and returns the error. That the
// client has gone is no failure of the member.
func (m *member) did(ctx context.Context, err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err == nil:
		m.mu.failures, m.mu.err = 0, nil
		m.mu.done++
	case errors.Is(context.Cause(ctx), context.Canceled):
	default:
		pause := min(mostPause, firstPause<<min(m.mu.failures, 10))
		m.mu.failures++
		m.mu.until, m.mu.err = time.Now().Add(pause), err
	}
	return err
}

// A MemberStatus is how a member is doing.
type MemberStatus struct {
	URL   string `json:"url"`
	Asked int64  `json:"asked"`           // for prompts
	Done  int64  `json:"done"`            // of these
	Error string `json:"error,omitempty"` // why it is left alone
}

// Status returns the members' states.
func (p *Pool) Status() []MemberStatus {
	states := make([]MemberStatus, len(p.members))
	for i, m := range p.members {
		m.mu.Lock()
		states[i] = MemberStatus{URL: m.url, Asked: m.mu.asked, Done: m.mu.done}
		if m.mu.err != nil {
			states[i].Error = m.mu.err.Error()
		}
		m.mu.Unlock()
	}
	return states
}

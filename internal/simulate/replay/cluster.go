package replay

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"ollamoon/connector"
)

// ErrCluster is wrapped by errors for clusters that the simulator does not model.
var ErrCluster = errors.New("replay: the simulator has no such cluster")

// A cluster is a router and its workers.
type cluster struct {
	client     *http.Client
	url        string
	workers    []member
	slots      int
	pageTokens int
}

// A member is one of its workers.
type member struct{ id, url string }

// workerStatus is what is of interest in a worker's status.
type workerStatus struct {
	Sharing    bool
	Reason     string
	Role       string
	Exact      bool
	PageTokens int `json:"page_tokens"`
	Pages      struct {
		Published      int64
		BytesPublished int64 `json:"bytes_published"`
	}
}

// routerStatus is what is of interest in a router's.
type routerStatus struct {
	Workers []struct {
		ID, URL, State string
		Slots, Running int
	}
}

// look finds out what a cluster consists of.
func look(ctx context.Context, client *http.Client, url string) (*cluster, error) {
	c := &cluster{client: client, url: strings.TrimSuffix(url, "/")}
	var router routerStatus
	if err := c.get(ctx, c.url+"/ollamoon/status", &router); err != nil {
		return nil, err
	}
	if len(router.Workers) == 0 {
		return nil, fmt.Errorf("%w: %s has no workers; --url is that of a router (ollamoon up, ollamoon route)", ErrCluster, c.url)
	}
	for _, w := range router.Workers {
		if w.State != "healthy" {
			return nil, fmt.Errorf("%w: worker %s is %s", ErrCluster, w.ID, w.State)
		}
		c.workers = append(c.workers, member{w.ID, strings.TrimSuffix(w.URL, "/")})
		c.slots = w.Slots
		if err := c.check(ctx, c.workers[len(c.workers)-1]); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// check reports a worker that is not like those of the simulator.
func (c *cluster) check(ctx context.Context, w member) error {
	s, err := c.status(ctx, w)
	switch {
	case err != nil:
		return err
	case !s.Sharing:
		return fmt.Errorf("%w: worker %s shares nothing: %s", ErrCluster, w.id, s.Reason)
	case s.Role != connector.Mixed.String():
		return fmt.Errorf("%w: the role of worker %s is %s; simulated workers compute for themselves, as those of ollamoon up --prefill 0", ErrCluster, w.id, s.Role)
	case s.Exact:
		return fmt.Errorf("%w: worker %s gives exact answers, for which it empties its slots", ErrCluster, w.id)
	case c.pageTokens != 0 && c.pageTokens != s.PageTokens:
		return fmt.Errorf("%w: workers have pages of %d tokens and of %d", ErrCluster, c.pageTokens, s.PageTokens)
	}
	c.pageTokens = s.PageTokens
	return nil
}

func (c *cluster) status(ctx context.Context, w member) (s workerStatus, err error) {
	return s, c.get(ctx, w.url+"/ollamoon/status", &s)
}

// published is how many pages all workers have published since they started.
func (c *cluster) published(ctx context.Context) (n int64, err error) {
	for _, w := range c.workers {
		s, err := c.status(ctx, w)
		if err != nil {
			return 0, err
		}
		n += s.Pages.Published
	}
	return n, nil
}

// settle bounds the wait for pages to be published.
const (
	settle     = 5 * time.Second
	settleLook = 5 * time.Millisecond
)

// await waits until so many pages have been published, or it takes too long, and
// returns how many have been.
func (c *cluster) await(ctx context.Context, pages int64) (int64, error) {
	for deadline := time.Now().Add(settle); ; {
		n, err := c.published(ctx)
		if err != nil || n >= pages || time.Now().After(deadline) {
			return n, err
		}
		select {
		case <-time.After(settleLook):
		case <-ctx.Done():
			return n, context.Cause(ctx)
		}
	}
}

// serving is the worker on which something runs; empty if none is found.
func (c *cluster) serving(ctx context.Context) string {
	var router routerStatus
	if c.get(ctx, c.url+"/ollamoon/status", &router) != nil {
		return ""
	}
	for _, w := range router.Workers {
		if w.Running > 0 {
			return w.ID
		}
	}
	return ""
}

// phases are how long each part of sharing prompts has taken a worker since it
// started, in seconds.
func (c *cluster) phases(ctx context.Context, w member) (map[string]float64, error) {
	body, err := c.open(ctx, w.url+"/ollamoon/metrics")
	if err != nil {
		return nil, err
	}
	defer body.Close()
	const before, after = `ollamoon_phase_seconds_sum{phase="`, `"} `
	found := map[string]float64{}
	for lines := bufio.NewScanner(body); lines.Scan(); {
		rest, ok := strings.CutPrefix(lines.Text(), before)
		phase, value, is := strings.Cut(rest, after)
		if !ok || !is {
			continue
		}
		if found[phase], err = strconv.ParseFloat(value, 64); err != nil {
			return nil, fmt.Errorf("%w: metrics of %s: %w", ErrAnswer, w.id, err)
		}
	}
	return found, nil
}

// open asks for a page.
func (c *cluster) open(ctx context.Context, url string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", url, err)
	}
	response, err := c.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close() // read only
		return nil, fmt.Errorf("%w: %s answers with status %d", ErrAnswer, url, response.StatusCode)
	}
	return response.Body, nil
}

func (c *cluster) get(ctx context.Context, url string, into any) error {
	body, err := c.open(ctx, url)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := json.NewDecoder(io.LimitReader(body, maxLine)).Decode(into); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrAnswer, url, err)
	}
	return nil
}

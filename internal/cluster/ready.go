package cluster

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"ollamoon/internal/supervise"
)

// probeTimeout bounds one question to a program.
const probeTimeout = 2 * time.Second

var (
	errNotMounted   = errors.New("cluster: the owner has not mounted its segment")
	errNotListening = errors.New("cluster: not listening on port")
	errStatus       = errors.New("cluster: HTTP status")
)

// Segments returns the names of the segments that the master has, those of owners
// that it has not yet found dead among them.
func (c *Cluster) Segments(ctx context.Context) ([]string, error) {
	body, err := get(ctx, fmt.Sprintf("http://%s/get_all_segments", c.at(masterName, c.ports.metrics)))
	if err != nil {
		return nil, err
	}
	var names []string
	for lines := bufio.NewScanner(bytes.NewReader(body)); lines.Scan(); {
		if name := lines.Text(); name != "" {
			names = append(names, name)
		}
	}
	return names, nil
}

// Metrics returns the master's metrics in Prometheus' text format.
func (c *Cluster) Metrics(ctx context.Context) ([]byte, error) {
	return get(ctx, fmt.Sprintf("http://%s/metrics", c.at(masterName, c.ports.metrics)))
}

// masterServes returns nil when a master listens on its ports and says that it is
// well.
func (c *Cluster) masterServes(ctx context.Context, p *supervise.Process) error {
	want := []int{c.ports.rpc, c.ports.metrics}
	if c.config.Metadata == MetadataHTTP {
		want = append(want, c.ports.metadata)
	}
	if err := listens(p, want...); err != nil {
		return err
	}
	_, err := get(ctx, fmt.Sprintf("http://%s/health", c.at(masterName, c.ports.metrics)))
	return err
}

// mounted returns nil when the memory of an owner with a process can be used.
func (c *Cluster) mounted(ctx context.Context, p *supervise.Process, o *owner) error {
	segments, err := c.Segments(ctx)
	if err != nil {
		return err
	}
	if !slices.Contains(segments, o.segment) {
		return errNotMounted
	}
	if c.config.Metadata != MetadataP2P {
		if _, err := get(ctx, c.Metadata()+"?key="+url.QueryEscape("mooncake/ram/"+o.segment)); err != nil {
			return err
		}
	}
	return listens(p, o.port)
}

// listens returns nil when a process itself listens on all these ports: another
// one may have taken them in between.
func listens(p *supervise.Process, ports ...int) error {
	addresses, err := p.Listeners()
	if err != nil {
		return err
	}
	for _, port := range ports {
		if !slices.ContainsFunc(addresses, func(a netip.AddrPort) bool { return int(a.Port()) == port }) {
			return fmt.Errorf("%w %d", errNotListening, port)
		}
	}
	return nil
}

// get returns the body of a program's page.
func get(ctx context.Context, address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // and no proxy
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return nil, fmt.Errorf("reading %s: %w", address, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w %s from %s", errStatus, response.Status, address)
	}
	return body, nil
}

package cluster

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// probeTimeout bounds one question to a program.
const probeTimeout = 2 * time.Second

var (
	errNotMounted = errors.New("cluster: the owner has not mounted its segment")
	errStatus     = errors.New("cluster: HTTP status")
)

// Segments returns the names of the segments that the master has, those of owners
// that it has not yet found dead among them.
func (c *Cluster) Segments(ctx context.Context) ([]string, error) {
	body, err := get(ctx, fmt.Sprintf("http://%s/get_all_segments", local(c.ports.metrics)))
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
	return get(ctx, fmt.Sprintf("http://%s/metrics", local(c.ports.metrics)))
}

// masterServes returns nil when the master's ports answer.
func (c *Cluster) masterServes(ctx context.Context) error {
	if _, err := get(ctx, fmt.Sprintf("http://%s/health", local(c.ports.metrics))); err != nil {
		return err
	}
	if c.config.Metadata == MetadataHTTP {
		if err := connects(ctx, c.ports.metadata); err != nil {
			return err
		}
	}
	return connects(ctx, c.ports.rpc)
}

// mounted returns nil when an owner's memory can be used.
func (c *Cluster) mounted(ctx context.Context, o *owner) error {
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
	return connects(ctx, o.port)
}

// connects returns nil when something on loopback accepts connections at a port.
func connects(ctx context.Context, port int) error {
	dialer := net.Dialer{Timeout: probeTimeout}
	conn, err := dialer.DialContext(ctx, "tcp4", local(port))
	if err != nil {
		return err
	}
	return conn.Close()
}

// get returns the body of a page on loopback.
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

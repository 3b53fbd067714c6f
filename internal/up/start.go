package up

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"ollamoon/internal/supervise"
)

const (
	// startTimeout bounds the start of one child, which may have to read a large
	// model.
	startTimeout = 10 * time.Minute
	// attempts bounds how often the workers' ports are chosen.
	attempts = 3
)

// start starts everything, in order, and returns the children but the store's.
func (s *session) start(ctx context.Context) ([]Child, error) {
	address := net.JoinHostPort(s.options.Host, strconv.Itoa(s.options.Port))
	if err := free(ctx, address); err != nil {
		return nil, fmt.Errorf("%w; --port takes another, --port 0 a free one", err)
	}
	if ip := net.ParseIP(s.options.Host); !ip.IsLoopback() && s.options.APIKeys == "" {
		s.say("whoever reaches %s can use the cluster; --api-keys asks for keys", address)
	}
	if s.options.Crowded() {
		s.say("%d engines on %d threads: each has one, and they slow each other down", s.options.Workers(), s.options.Threads)
	}
	store, err := s.startStore(ctx)
	if err != nil {
		return nil, err
	}
	site, err := s.site(store)
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		if site.Ports, err = s.ports(ctx); err != nil {
			return nil, err
		}
		before := len(s.parts)
		children := Plan(s.options, site)
		err := s.startChildren(ctx, children)
		if err == nil {
			return children, nil
		}
		if attempt == attempts || !errors.Is(err, ErrPort) {
			return nil, err
		}
		for _, p := range s.parts[before:] { // a port was taken between its choice and its use
			p.process.Stop(workerGrace)
		}
		s.parts = s.parts[:before]
	}
}

// ports returns free ports for the workers, and the router's.
func (s *session) ports(ctx context.Context) ([]int, error) {
	ports, err := supervise.FreePorts(ctx, s.options.Workers()+1)
	if err != nil {
		return nil, err
	}
	if s.options.Port != 0 {
		ports[len(ports)-1] = s.options.Port
	}
	return ports, nil
}

// The secrets of a run.
const (
	commonSecret = "secret"
	sealKey      = "seal.key"
	adminToken   = "admin.token"
)

// site makes what the children have in common.
func (s *session) site(store string) (site Site, err error) {
	site = Site{Store: store, SealKeyFile: s.options.SealKeyFile}
	if site.SecretFile, err = s.folder.secret(commonSecret); err != nil {
		return site, err
	}
	if s.cluster != nil {
		if site.SealKeyFile, err = s.folder.secret(sealKey); err != nil {
			return site, err
		}
	}
	if s.options.APIKeys != "" {
		site.AdminTokenFile, err = s.folder.secret(adminToken)
	}
	return site, err
}

// startChildren starts the workers, one after the other since each measures
// something at its start, and the router.
func (s *session) startChildren(ctx context.Context, children []Child) error {
	for len(children) > 0 {
		n := 1
		for n < len(children) && children[n].Kind == children[0].Kind {
			n++
		}
		if err := s.startStage(ctx, children[:n]); err != nil {
			return err
		}
		children = children[n:]
	}
	return nil
}

// startStage starts children of one kind.
func (s *session) startStage(ctx context.Context, children []Child) error {
	s.say("starting %s", stage(children))
	for _, c := range children {
		began := time.Now()
		if err := s.startChild(ctx, c); err != nil {
			return err
		}
		s.say("  %s serves at %s after %.1f s", c.Name, c.URL(), time.Since(began).Seconds())
	}
	return nil
}

// stage names children of one kind, with how they share the processors.
func stage(children []Child) string {
	most, least := children[0].Threads, children[len(children)-1].Threads
	threads := fmt.Sprintf("%d threads", most)
	switch {
	case least != most:
		threads = fmt.Sprintf("%d and %d threads", least, most)
	case most == 1:
		threads = "1 thread"
	}
	switch {
	case children[0].Kind == KindRouter:
		return "the router"
	case len(children) == 1:
		return fmt.Sprintf("a %s worker with %s", children[0].Kind, threads)
	case least != most:
		return fmt.Sprintf("%d %s workers, with %s", len(children), children[0].Kind, threads)
	}
	return fmt.Sprintf("%d %s workers, each with %s", len(children), children[0].Kind, threads)
}

func (s *session) startChild(ctx context.Context, c Child) (err error) {
	log, err := s.logs.of(c.Name)
	if err != nil {
		return err
	}
	p := &part{name: c.Name, kind: c.Kind, start: func(ctx context.Context) (*supervise.Process, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("%s does not serve within %v", c.Name, startTimeout))
		defer cancel()
		return run(ctx, s.options.Program, c, log, s.client)
	}}
	if p.process, err = p.start(ctx); err != nil {
		return err
	}
	s.parts = append(s.parts, p)
	if c.Kind == KindRouter {
		return nil
	}
	var status sharing
	if err := get(ctx, s.client, c.URL()+"/ollamoon/status", &status); err != nil {
		return fmt.Errorf("asking %s for its status: %w", c.Name, err)
	}
	if !status.Sharing {
		s.say("  %s shares no prompts so far: %s", c.Name, status.Reason)
	}
	return nil
}

package up

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"ollamoon/internal/supervise"
)

const (
	// workerGrace is what a worker gets to end by itself.
	workerGrace = 10 * time.Second
	// routerGrace is what the router gets.
	routerGrace = drain + 5*time.Second
)

// stop stops all parts in the opposite order of their start, those of one kind
// together. When hurry is done they are killed.
func (s *session) stop(hurry context.Context) {
	for _, stage := range []struct {
		kind  Kind
		grace time.Duration
		says  string
	}{
		{KindRouter, routerGrace, "stopping the router, which lets running requests finish; again Ctrl-C ends all at once"},
		{KindDecode, workerGrace, "stopping the decode workers"},
		{KindPrefill, workerGrace, "stopping the prefill workers"},
	} {
		var stopping sync.WaitGroup
		said := false
		for _, p := range s.parts {
			if p.kind != stage.kind || p.process.Err() != nil {
				continue
			}
			if !said {
				s.say("%s", stage.says)
				said = true
			}
			stopping.Go(func() { stop(hurry, p.process, stage.grace) })
		}
		stopping.Wait()
	}
	if s.cluster != nil {
		s.say("stopping Mooncake")
		s.cluster.Close()
	}
}

func stop(hurry context.Context, p *supervise.Process, grace time.Duration) {
	defer context.AfterFunc(hurry, p.Kill)()
	p.Stop(grace)
}

// file is the path of a file in the run's folder.
func (s *session) file(name string) string { return filepath.Join(s.folder.path, name) }

// environ is the environment of the children. Variables of llama-server are left
// out: they would be settings of all workers, against those that these are given.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "LLAMA_") })
}

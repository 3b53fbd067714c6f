package standin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"ollamoon/internal/settings"
)

// What fails here is not taken for a failure of the engine, while its own lines
// stay as they are.
func TestNoAlarms(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		for _, alarm := range slices.Concat(failures, shortages, []string{"CUDA error: out of memory", "Out Of Memory", "fatal error: allocation failed", "ERR"}) {
			var got bytes.Buffer
			c := &console{to: &got}
			engine := &engineWriter{console: c, private: []byte("private")}
			log := c.logger(settings.Settings{LogFormat: format}, slog.LevelInfo)
			log.Warn("a prefix was not loaded", "error", fmt.Errorf("the store: %w", errors.New(alarm)), "why", alarm)
			if alarming(got.String()) || alarming(strings.ToLower(got.String())) {
				t.Errorf("%q in %s", alarm, &got)
			}
			var line map[string]any
			if format == "json" && json.Unmarshal(got.Bytes(), &line) != nil {
				t.Errorf("no JSON: %s", &got)
			}
			own := got.String()
			if _, err := fmt.Fprintf(engine, "llama: %s\n", alarm); err != nil {
				t.Fatal(err)
			}
			if want := own + "llama: " + alarm + "\n"; got.String() != want {
				t.Errorf("%q, want %q", got.String(), want)
			}
		}
	}
}

// However the engine's output is cut, and whenever our lines come, each line of
// either is whole.
func TestLinesOfTwoWritersStayWhole(t *testing.T) {
	const lines = 200
	var got bytes.Buffer
	c := &console{to: &got}
	engine := &engineWriter{console: c, private: []byte("unix:///private"), public: []byte("http://public")}
	log := c.logger(settings.Settings{}, slog.LevelInfo)
	var writers sync.WaitGroup
	writers.Go(func() {
		text := []byte(strings.Repeat("engine unix:///private u\n", lines))
		for len(text) > 0 {
			n := min(len(text), 1+len(text)%7)
			_, _ = engine.Write(text[:n]) // a buffer takes all
			text = text[n:]
		}
	})
	for range 4 {
		writers.Go(func() {
			for range lines {
				log.Info("ours")
			}
		})
	}
	writers.Wait()
	engine.flush()
	engines, ours := 0, 0
	for line := range strings.Lines(got.String()) {
		switch {
		case line == "engine http://public u\n":
			engines++
		case strings.HasPrefix(line, logPrefix+"time=") && strings.HasSuffix(line, " level=INFO msg=ours\n"):
			ours++
		default:
			t.Fatalf("%q", line)
		}
	}
	if engines != lines || ours == 0 || ours > 4*lines {
		t.Errorf("%d lines of the engine's, %d of ours", engines, ours)
	}
}

// The last errors are kept also of a quiet log, the newest first.
func TestRecentErrors(t *testing.T) {
	var out bytes.Buffer
	r := &recent{}
	log := r.logger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelError}))).With("from", "here")
	log.Info("nothing of note")
	for i := range maxRecent + 2 {
		log.Warn("a prefix was not loaded", "tokens", 512, "error", fmt.Errorf("number %d", i))
	}
	log.LogAttrs(context.Background(), slog.LevelError, "worse", slog.String("reason", "none"))
	got := r.last()
	if len(got) != maxRecent || got[0].Message != "worse" || got[0].Error != "none" || got[1].Error != "number 11" || got[maxRecent-1].Error != "number 3" {
		t.Errorf("%+v", got)
	}
	if got[0].Time.IsZero() || strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), "from=here") {
		t.Errorf("the log: %s", &out)
	}
}

package standin

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// maxRecent is how many of the last errors are kept.
const maxRecent = 10

// recent keeps the last warnings and errors of the log, for the status.
type recent struct {
	mu struct {
		sync.Mutex
		errors []ErrorStatus // the oldest first
	}
}

// ErrorStatus is a line of the log.
type ErrorStatus struct {
	Time    time.Time `json:"time"`
	Message string    `json:"message"`
	Error   string    `json:"error,omitempty"`
}

// last returns what is kept, the newest first.
func (r *recent) last() []ErrorStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	errors := slices.Clone(r.mu.errors)
	slices.Reverse(errors)
	return errors
}

// logger returns a log that is kept of, and that goes on to another.
func (r *recent) logger(to *slog.Logger) *slog.Logger {
	return slog.New(keeper{to.Handler(), r})
}

// A keeper is a handler that keeps what is a warning or worse, whatever the level
// of the log.
type keeper struct {
	slog.Handler
	recent *recent
}

// Enabled implements slog.Handler.
func (k keeper) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || k.Handler.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (k keeper) Handle(ctx context.Context, record slog.Record) error {
	if record.Level >= slog.LevelWarn {
		k.recent.keep(record)
	}
	if !k.Handler.Enabled(ctx, record.Level) {
		return nil
	}
	return k.Handler.Handle(ctx, record)
}

func (r *recent) keep(record slog.Record) {
	e := ErrorStatus{Time: record.Time, Message: record.Message}
	record.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" || a.Key == "reason" {
			e.Error = a.Value.String()
		}
		return e.Error == ""
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.mu.errors) == maxRecent {
		r.mu.errors = slices.Delete(r.mu.errors, 0, 1)
	}
	r.mu.errors = append(r.mu.errors, e)
}

// WithAttrs implements slog.Handler.
func (k keeper) WithAttrs(attrs []slog.Attr) slog.Handler {
	return keeper{k.Handler.WithAttrs(attrs), k.recent}
}

// WithGroup implements slog.Handler.
func (k keeper) WithGroup(name string) slog.Handler {
	return keeper{k.Handler.WithGroup(name), k.recent}
}

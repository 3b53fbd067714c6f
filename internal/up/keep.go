package up

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"ollamoon/internal/supervise"
)

// ErrGivenUp: a child keeps dying and is not started again.
var ErrGivenUp = errors.New("up: given up")

// A part is a child that is started again when it dies.
type part struct {
	name string
	kind Kind
	// start returns when the child is ready.
	start func(ctx context.Context) (*supervise.Process, error)
	// process is what runs or has died last; of who starts and keeps it.
	process *supervise.Process
}

// A patience says what is done about deaths.
type patience struct {
	first, most time.Duration // pauses before a start: the first, doubling up to the last
	deaths      int           // in a row, after which a child is given up
	steady      time.Duration // a child that has run so long begins a new row
}

var usualPatience = patience{first: 500 * time.Millisecond, most: 30 * time.Second, deaths: 6, steady: time.Minute}

// pause returns the pause after a number of deaths in a row.
func (p patience) pause(deaths int) time.Duration {
	return min(p.most, p.first<<min(deaths-1, 20))
}

// A clock is time, as a keeper has it.
type clock struct {
	now   func() time.Time
	sleep func(ctx context.Context, d time.Duration) error // the context's error when it ends before
}

var wallClock = clock{now: time.Now, sleep: sleep}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A keeper keeps parts running.
type keeper struct {
	patience patience
	clock    clock
	say      func(format string, args ...any)
}

// keep starts a part again whenever it dies, until ctx is done. The error wraps
// ErrGivenUp when it dies too often.
func (k keeper) keep(ctx context.Context, p *part) error {
	deaths, began := 0, k.clock.now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.process.Done():
		}
		if k.clock.now().Sub(began) >= k.patience.steady {
			deaths = 0
		}
		died := fmt.Errorf("%w%s", p.process.Err(), lastLines(p.process.Tail()))
		for died != nil {
			deaths++
			if deaths >= k.patience.deaths {
				return fmt.Errorf("%w: %s, after %d deaths in a row, the last: %w", ErrGivenUp, p.name, deaths, died)
			}
			pause := k.patience.pause(deaths)
			k.say("%s has ended and is started again in %v: %v", p.name, pause, died)
			if k.clock.sleep(ctx, pause) != nil {
				return nil
			}
			process, err := p.start(ctx)
			if ctx.Err() != nil {
				if err == nil {
					p.process = process
				}
				return nil
			}
			if died = err; err == nil {
				p.process = process
			}
		}
		began = k.clock.now()
		k.say("%s runs again", p.name)
	}
}

// shownLines of a child's output are in a message about its death.
const shownLines = 5

// lastLines returns the last lines of an output, for the end of a message.
func lastLines(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	if len(lines) > shownLines {
		lines = lines[len(lines)-shownLines:]
	}
	if lines[0] == "" {
		return ""
	}
	return "; its last output:\n  " + strings.Join(lines, "\n  ")
}

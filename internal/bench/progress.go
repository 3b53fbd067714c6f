package bench

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// Progress shows how far a run is: bars on a terminal, else a line at times.
type Progress struct {
	out  io.Writer
	bars *mpb.Progress // nil without a terminal
}

// plainInterval is the time between two lines of one stage.
const plainInterval = 5 * time.Second

// NewProgress shows on out, which may be nil.
func NewProgress(out io.Writer) *Progress {
	p := &Progress{out: out}
	if out == nil {
		p.out = io.Discard
	}
	if f, ok := out.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.bars = mpb.New(mpb.WithOutput(out), mpb.WithWidth(48))
		}
	}
	return p
}

// Stage shows another's work like a part of a run; see stage.
func (p *Progress) Stage(name string, steps int) (step, end func()) { return p.stage(name, steps) }

// stage begins a part of a run that has a number of steps. step is called after
// each, end when the part is over, done or not.
func (p *Progress) stage(name string, steps int) (step, end func()) {
	if p.bars == nil {
		return p.plainStage(name, steps)
	}
	bar := p.bars.AddBar(int64(steps),
		mpb.PrependDecorators(decor.Name(name, decor.WC{W: 28, C: decor.DindentRight})),
		mpb.AppendDecorators(decor.CountersNoUnit("%d of %d"), decor.Elapsed(decor.ET_STYLE_GO, decor.WC{W: 6})))
	return bar.Increment, func() { bar.Abort(false) }
}

func (p *Progress) plainStage(name string, steps int) (step, end func()) {
	start := time.Now()
	said, done := start, 0
	step = func() {
		done++
		if done < steps && time.Since(said) >= plainInterval {
			said = time.Now()
			p.say("%s: %d of %d\n", name, done, steps)
		}
	}
	end = func() {
		p.say("%s: %d of %d in %.1f s\n", name, done, steps, time.Since(start).Seconds())
	}
	return step, end
}

// say writes a line. That nobody can read it stops no run.
func (p *Progress) say(format string, args ...any) {
	_, _ = fmt.Fprintf(p.out, format, args...)
}

// Close writes what is left to write. No stage may be open.
func (p *Progress) Close() {
	if p.bars != nil {
		p.bars.Wait()
	}
}

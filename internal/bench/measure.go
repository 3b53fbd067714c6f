package bench

import (
	"context"
)

// measure takes all contenders and the limits through the realistic scenario.
func (r *run) measure(ctx context.Context) (*session, error) {
	x, err := r.open(ctx, realistic, oursTCP, oursShared, python)
	if err != nil {
		return nil, err
	}
	defer x.close()
	s := x.scenario
	if x.limits, err = newLimits(ctx, r.Sender, s.sharedPages(), s.layout.Bytes()); err != nil {
		return nil, err
	}
	for _, part := range []func(context.Context, *session) error{
		r.touchSegment, r.measurePublishing, r.measureReloading,
	} {
		if err := part(ctx, x); err != nil {
			return nil, err
		}
	}
	if err := x.finishB(ctx); err != nil {
		return nil, err
	}
	return x, x.leave(ctx)
}

// touchSegment has the owner's memory written to once: the first write to memory
// is slow, whoever causes it.
func (r *run) touchSegment(ctx context.Context, x *session) error {
	s, c := x.scenario, x.contenders[0]
	requests := make([][]int32, int(fill*float64(r.SegmentBytes))/(s.pages()*s.objectBytes(r.Seal)))
	step, end := r.Progress.stage("touching the segment", len(requests))
	defer end()
	for i := range requests {
		requests[i], _ = s.requests(x.random)
		if _, err := x.ask(ctx, c, opPublish, requests[i], s.pages()); err != nil {
			return err
		}
		step()
	}
	for _, tokens := range requests {
		if _, err := x.ask(ctx, c, opRemove, tokens, 0); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) measurePublishing(ctx context.Context, x *session) error {
	step, end := r.Progress.stage("publishing", (warmUps+r.Rounds)*len(x.contenders))
	defer end()
	for turn := range warmUps + r.Rounds {
		err := x.each(turn, func(c *contender) error {
			ms, err := x.publishRound(ctx, c)
			if turn >= warmUps {
				c.record.publishMS = append(c.record.publishMS, ms)
			}
			step()
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *run) measureReloading(ctx context.Context, x *session) error {
	if err := x.publishA(ctx); err != nil {
		return err
	}
	step, end := r.Progress.stage("reloading", warmUps+r.Iterations)
	defer end()
	for turn := range warmUps + r.Iterations {
		warmUp := turn < warmUps
		err := x.each(turn, func(c *contender) error {
			got, err := x.reload(ctx, c, x.scenario.sharedPages())
			if !warmUp {
				c.record.reloadMS = append(c.record.reloadMS, got.MS)
				c.record.loopbackBytes += got.LoopbackBytes
			}
			x.hit = got.Pages
			return err
		})
		if err == nil {
			err = x.limits.measure(ctx, warmUp)
		}
		if err != nil {
			return err
		}
		step()
	}
	return nil
}

// demonstrate takes this project's contenders through the tiny scenario.
func (r *run) demonstrate(ctx context.Context) (*session, error) {
	step, end := r.Progress.stage("the tiny layout", 1)
	defer end()
	x, err := r.open(ctx, tiny, oursTCP, oursShared)
	if err != nil {
		return nil, err
	}
	defer x.close()
	if err := x.publishA(ctx); err != nil {
		return nil, err
	}
	err = x.each(0, func(c *contender) error {
		got, err := x.reload(ctx, c, x.scenario.sharedPages())
		x.hit = got.Pages
		return err
	})
	if err == nil {
		err = x.finishB(ctx)
	}
	if err == nil {
		err = x.leave(ctx)
	}
	step()
	return x, err
}

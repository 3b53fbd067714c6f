package worker

import (
	"testing"
	"time"
)

func TestWorth(t *testing.T) {
	var e estimates
	if !e.worth(4, 1024) || e.worth(4, 0) {
		t.Error("what has never been observed is worth a try, and nothing to save is not")
	}
	e.computed(time.Second, 1000)    // 1 ms a token
	e.loaded(40*time.Millisecond, 4) // 10 ms a page
	if !e.worth(4, 1024) || e.worth(4, 40) {
		t.Error("40 ms of loading are worth 1024 ms of computing, and not 40 ms")
	}
	if load, compute := e.rates(); load != 10*time.Millisecond || compute != time.Millisecond {
		t.Errorf("rates %v, %v", load, compute)
	}
	e.computed(time.Hour, minObserved-1)
	if _, compute := e.rates(); compute != time.Millisecond {
		t.Errorf("a short prompt is learnt from: %v", compute)
	}
}

// One slow load does not end loading for good.
func TestASlowLoadIsTriedAgain(t *testing.T) {
	var e estimates
	e.computed(time.Second, 1000)
	e.loaded(time.Minute, 1)
	tries := 0
	for range 10 * retryAfter {
		if e.worth(4, 1024) {
			tries++
			e.loaded(40*time.Millisecond, 4)
		}
	}
	if tries < 2 || !e.worth(4, 1024) {
		t.Errorf("%d tries, and loading is still not worth it", tries)
	}
}

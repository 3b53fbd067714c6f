package bench

import (
	"reflect"
	"testing"

	"ollamoon/internal/results"
)

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   results.Spread
	}{
		{nil, results.Spread{}},
		{[]float64{5}, results.Spread{Min: 5, P50: 5, Mean: 5, Max: 5}},
		{[]float64{9, 1, 2}, results.Spread{Min: 1, P50: 2, Mean: 4, Max: 9}},
		{[]float64{8, 2, 4, 2}, results.Spread{Min: 2, P50: 3, Mean: 4, Max: 8}},
	} {
		if got := spread(c.values); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.values, got, c.want)
		}
	}
}

func TestMeasurement(t *testing.T) {
	r := record{publishMS: []float64{50, 20, 40}, reloadMS: []float64{10, 30}, loopbackBytes: 7, heldBytes: 8, comparedBytes: 9}
	got := r.measurement(2e6, 1e6)
	want := results.Measurement{
		PublishBytes: 2e6, PublishMS: 40, PublishMBs: 50, PublishRoundsMBs: []float64{40, 100, 50},
		ReloadBytes: 1e6, ReloadMS: results.Spread{Min: 10, P50: 20, Mean: 20, Max: 30}, ReloadMBs: 50, Iterations: 2,
		LoopbackBytes: 7, HeldBytes: 8, Verified: true,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := new(record).measurement(1, 1); got.ReloadMBs != 0 || got.PublishMBs != 0 || got.Verified {
		t.Errorf("nothing was measured, yet %+v", got)
	}
}

func TestMBs(t *testing.T) {
	if got := mbs(102_760_448, 25); got != 4110.41792 {
		t.Errorf("%v MB/s", got)
	}
}

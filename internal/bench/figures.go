package bench

import (
	"slices"

	"ollamoon/internal/results"
)

// mbs is the speed of bytes in milliseconds, in MB/s.
func mbs(bytes int64, ms float64) float64 {
	if ms <= 0 {
		return 0
	}
	return float64(bytes) / ms / 1e3
}

// median is the middle of the values, or the mean of the two in the middle.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

func spread(values []float64) results.Spread {
	if len(values) == 0 {
		return results.Spread{}
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return results.Spread{
		Min:  slices.Min(values),
		P50:  median(values),
		Mean: sum / float64(len(values)),
		Max:  slices.Max(values),
	}
}

// A record is what one contender has done.
type record struct {
	publishMS     []float64 // one a round
	reloadMS      []float64 // one a timed reload
	loopbackBytes int64     // over the timed reloads
	heldBytes     int64
	comparedBytes int64 // over all reloads
}

// measurement sums up a record, with the payload bytes of one round of publishing
// and of one reload.
func (r *record) measurement(publishBytes, reloadBytes int64) results.Measurement {
	m := results.Measurement{
		PublishBytes:  publishBytes,
		ReloadBytes:   reloadBytes,
		ReloadMS:      spread(r.reloadMS),
		Iterations:    len(r.reloadMS),
		LoopbackBytes: r.loopbackBytes,
		HeldBytes:     r.heldBytes,
		Verified:      r.comparedBytes > 0,
	}
	m.ReloadMBs = mbs(reloadBytes, m.ReloadMS.P50)
	m.PublishMS = median(r.publishMS)
	m.PublishMBs = mbs(publishBytes, m.PublishMS)
	for _, ms := range r.publishMS {
		m.PublishRoundsMBs = append(m.PublishRoundsMBs, mbs(publishBytes, ms))
	}
	return m
}

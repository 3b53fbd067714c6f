// Package metrics tells what a stand-in does in the form of Prometheus.
//
// The metrics are one table (table.go), of which the reference in docs/metrics.md
// is made: go test ./internal/metrics -update. Each has a value from the start for
// every combination of its labels' values, so that a rate or a ratio over the
// first event is right.
//
// Counters and histograms are fed by those who do the work: package worker's
// completions (worker.Observer) and calls to the store (Store). Everything else is
// read when it is asked for. Lookups and hits are counted at one place, when a
// completion is over, and so are the tokens of its prompt by source: their ratios
// are true at every moment.
package metrics

package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"ollamoon/internal/worker"
)

// Metrics are those of one stand-in, in a registry of their own. They are a
// worker.Observer.
type Metrics struct {
	registry *prometheus.Registry

	requests, promptTokens, storeFails, phaseFails *prometheus.CounterVec
	lookupTokens, hitTokens                        prometheus.Counter
	storeCalls, phases                             *prometheus.HistogramVec
}

var _ worker.Observer = (*Metrics)(nil)

// New returns metrics. Read is called for each answer, for what is read and not
// counted.
func New(read func() Snapshot) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.requests = m.counters(requests)
	m.promptTokens = m.counters(promptTokens)
	m.lookupTokens = m.counters(lookupTokens).WithLabelValues()
	m.hitTokens = m.counters(hitTokens).WithLabelValues()
	m.storeCalls = m.histograms(storeCalls)
	m.storeFails = m.counters(storeFails)
	m.phases = m.histograms(phases)
	m.phaseFails = m.counters(phaseFails)
	m.registry.MustRegister(reader(read))
	return m
}

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

func (m *Metrics) counters(d *definition) *prometheus.CounterVec {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.name, Help: d.help}, d.labelNames())
	m.registry.MustRegister(vec)
	for _, values := range d.combinations() {
		vec.WithLabelValues(values...)
	}
	return vec
}

// buckets reach from half a millisecond to a minute.
var buckets = prometheus.ExponentialBuckets(0.0005, 2, 18)

func (m *Metrics) histograms(d *definition) *prometheus.HistogramVec {
	vec := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.name, Help: d.help, Buckets: buckets}, d.labelNames())
	m.registry.MustRegister(vec)
	for _, values := range d.combinations() {
		vec.WithLabelValues(values...)
	}
	return vec
}

// Completed implements worker.Observer.
func (m *Metrics) Completed(c worker.Completion) {
	m.requests.WithLabelValues(c.Endpoint, string(c.Outcome)).Inc()
	for source, n := range map[string]int{"slot": c.Tokens.Slot, "memory": c.Tokens.Memory, "store": c.Tokens.Store, "computed": c.Tokens.Computed} {
		m.promptTokens.WithLabelValues(source).Add(float64(n))
	}
	m.lookupTokens.Add(float64(c.LookedUp))
	m.hitTokens.Add(float64(c.Hit))
	for phase, took := range map[string]time.Duration{"lookup": c.Lookup, "load": c.Load, "restore": c.Restore} {
		if took > 0 {
			m.phases.WithLabelValues(phase).Observe(took.Seconds())
		}
	}
}

// Saved implements worker.Observer.
func (m *Metrics) Saved(took time.Duration, err error) { m.phase("save", took, err) }

// Published implements worker.Observer.
func (m *Metrics) Published(took time.Duration, err error) { m.phase("publish", took, err) }

func (m *Metrics) phase(name string, took time.Duration, err error) {
	m.phases.WithLabelValues(name).Observe(took.Seconds())
	if err != nil {
		m.phaseFails.WithLabelValues(name).Inc()
	}
}

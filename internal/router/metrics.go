package router

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"ollamoon/internal/router/policy"
)

// metrics are those of one router, in a registry of their own. All exist from the
// start; docs/router.md lists them.
type metrics struct {
	registry *prometheus.Registry

	answers, rejected, decisions, failures, ejections *prometheus.CounterVec
	retries                                           prometheus.Counter
	queued, firstByte                                 prometheus.Histogram
}

// buckets reach from a tenth of a millisecond to a minute.
var buckets = prometheus.ExponentialBuckets(0.0001, 2, 20)

func newMetrics() *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	counters := func(name, help string, label string, values ...string) *prometheus.CounterVec {
		vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ollamoon_router_" + name, Help: help}, []string{label})
		m.registry.MustRegister(vec)
		for _, v := range values {
			vec.WithLabelValues(v)
		}
		return vec
	}
	m.answers = counters("answers_total", "Answers to clients, by the class of their status.", "status", "2xx", "3xx", "4xx", "5xx")
	m.rejected = counters("rejected_total", "Requests that no worker has answered, by reason.", "reason",
		"busy", "unhealthy", "model", "closing", "gone", "key", "size", "refused")
	m.decisions = counters("decisions_total", "Requests given to workers, by the policy's reason.", "why", whys()...)
	m.failures = counters("failures_total", "Requests that a worker failed, before or after it began to answer.", "worker")
	m.ejections = counters("ejections_total", "Times that a worker was taken out.", "worker")
	m.retries = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ollamoon_router_retries_total", Help: "Requests given to another worker after one had failed.",
	})
	m.queued = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "ollamoon_router_queue_seconds", Help: "From a request's arrival until a worker got it.", Buckets: buckets,
	})
	m.firstByte = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "ollamoon_router_first_byte_seconds", Help: "From giving a request to a worker until its stream began.", Buckets: buckets,
	})
	m.registry.MustRegister(m.retries, m.queued, m.firstByte)
	return m
}

func whys() []string {
	var names []string
	for _, w := range []policy.Why{
		policy.WhyOnly, policy.WhyTurn, policy.WhyLeast, policy.WhyTime, policy.WhyEqual, policy.WhyHome, policy.WhyCache, policy.WhyWaited,
	} {
		names = append(names, string(w))
	}
	return names
}

// know makes a worker's metrics exist, forget ends them.
func (m *metrics) know(worker string) {
	m.failures.WithLabelValues(worker)
	m.ejections.WithLabelValues(worker)
}

func (m *metrics) forget(worker string) {
	m.failures.DeleteLabelValues(worker)
	m.ejections.DeleteLabelValues(worker)
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// gauges are read from the fleet when they are asked for.
type gauges struct{ fleet *fleet }

var (
	descWaiting = prometheus.NewDesc("ollamoon_router_queue_length", "Requests that wait for a slot.", nil, nil)
	descUp      = prometheus.NewDesc("ollamoon_router_worker_up", "1 when a worker is healthy.", []string{"worker"}, nil)
	descRunning = prometheus.NewDesc("ollamoon_router_worker_running", "Requests that have a slot of a worker.", []string{"worker"}, nil)
	descSlots   = prometheus.NewDesc("ollamoon_router_worker_slots", "Slots of a worker.", []string{"worker"}, nil)
	descTokens  = prometheus.NewDesc("ollamoon_router_worker_tokens", "Tokens expected to be left, of what runs on a worker.", []string{"worker", "phase"}, nil)
)

// Describe implements prometheus.Collector.
func (gauges) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descWaiting, descUp, descRunning, descSlots, descTokens} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (g gauges) Collect(to chan<- prometheus.Metric) {
	s := g.fleet.status()
	gauge := func(d *prometheus.Desc, v int, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	gauge(descWaiting, s.Queue.Waiting)
	for _, w := range s.Workers {
		up := 0
		if w.State == stateHealthy {
			up = 1
		}
		gauge(descUp, up, w.ID)
		gauge(descRunning, w.Running, w.ID)
		gauge(descSlots, w.Slots, w.ID)
		gauge(descTokens, w.PrefillTokens, w.ID, "prefill")
		gauge(descTokens, w.GenerateTokens, w.ID, "generate")
	}
}

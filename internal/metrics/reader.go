package metrics

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"ollamoon/internal/worker"
	"ollamoon/store/breaker"
)

// A Snapshot is what is read when metrics are asked for.
type Snapshot struct {
	Version, Engine string // of this program and of the engine
	Sharing         bool
	Reason          string          // why not
	Worker          worker.Status   // zero before there is one
	Breaker         *breaker.Status // nil before there is a store
}

// A reader is a collector of what is read.
type reader func() Snapshot

// read are the metrics that a reader has.
var read = []*definition{
	buildInfo, sharing, reasons, pagesLoaded, bytesLoaded, pagesPublished, bytesPublished, pagesRejected, pagesDiscarded, discardFailures,
	storeRefused, storeState, storeOpened, slots, slotsBusy, waiting, pageTokens, pageLoad, tokenCompute,
}

func (d *definition) desc() *prometheus.Desc {
	return prometheus.NewDesc(d.name, d.help, d.labelNames(), nil)
}

// Describe implements prometheus.Collector.
func (reader) Describe(to chan<- *prometheus.Desc) {
	for _, d := range read {
		to <- d.desc()
	}
}

// Collect implements prometheus.Collector.
func (r reader) Collect(to chan<- prometheus.Metric) {
	put := func(d *definition, value float64, labels ...string) {
		t := prometheus.GaugeValue
		if d.kind == counter {
			t = prometheus.CounterValue
		}
		to <- prometheus.MustNewConstMetric(d.desc(), t, value, labels...)
	}
	now := r()
	put(buildInfo, 1, now.Version, runtime.Version(), now.Engine)
	put(sharing, one(now.Sharing))
	put(reasons, 1, now.Reason)
	pages := now.Worker.Pages
	put(pagesLoaded, float64(pages.PagesHit))
	put(bytesLoaded, float64(pages.BytesLoaded))
	put(pagesPublished, float64(pages.PagesPublished))
	put(bytesPublished, float64(pages.BytesPublished))
	for _, row := range pagesRejected.combinations() {
		put(pagesRejected, float64(pages.Rejected[row[0]]), row...)
	}
	put(pagesDiscarded, float64(pages.PagesDiscarded))
	put(discardFailures, float64(pages.DiscardFailures))
	state := notOpened
	var status breaker.Status
	if now.Breaker != nil {
		status = *now.Breaker
		state = text(status.State)
	}
	put(storeRefused, float64(status.Refused))
	for _, row := range storeState.combinations() {
		put(storeState, one(row[0] == state), row...)
	}
	put(storeOpened, float64(status.Opened))
	put(slots, float64(now.Worker.Slots))
	put(slotsBusy, float64(now.Worker.Slots-now.Worker.Free))
	put(waiting, float64(now.Worker.Waiting))
	put(filesRefused, float64(now.Worker.NoRoom))
	put(pageTokens, float64(now.Worker.PageTokens))
	put(pageLoad, now.Worker.PageLoad.Seconds())
	put(tokenCompute, now.Worker.TokenCompute.Seconds())
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

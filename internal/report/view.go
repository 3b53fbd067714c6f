package report

import (
	"maps"
	"slices"
	"strconv"

	"ollamoon/internal/results"
)

// A view is what the templates are given.
type view struct {
	*results.File
	Cells []cell

	Throughput, Latency, Comparison, Seals *chart
	// FirstToken and Parts are nil without a model.
	FirstToken, Parts *chart

	Goals                 []goal
	Met, Missed, Unjudged int

	// Verified names the flags that have to hold for the run to count, as one
	// product; Unverified is those that do not, in words.
	Verified   string
	Unverified []string

	Clients  []client
	Measures []measure
	Versions []string // parts, in order
}

// A cell is a page of request B in the diagram.
type cell struct {
	Index   int
	Outcome figure
	Hit     bool
}

// A client is a row of the comparison's table.
type client struct {
	Name, Place string // Place is where its Measurement is
	Reloaded    bool   // at least once, timed
	// Misnamed: what the loopback interface carried says that the bytes took
	// another way than the name.
	Misnamed bool
}

// PagesComputed is how many pages of request B were not in the store.
func (m *view) PagesComputed() int { return m.Realistic.Pages - m.Realistic.PagesHit }

func newView(f *results.File, v values) (*view, error) {
	m := &view{File: f, Measures: measures, Versions: slices.Sorted(maps.Keys(f.Versions))}
	for i, outcome := range f.Realistic.PageOutcomes {
		shown, err := v.word("realistic.page_outcomes." + strconv.Itoa(i))
		if err != nil {
			return nil, err
		}
		m.Cells = append(m.Cells, cell{Index: i, Outcome: shown, Hit: outcome == "hit"})
	}
	type built struct {
		into  **chart
		build func() (*chart, error)
	}
	charts := []built{
		{&m.Throughput, v.throughput},
		{&m.Latency, v.latency},
		{&m.Comparison, v.comparison},
		{&m.Seals, v.seals},
	}
	if f.Engine != nil {
		charts = append(charts, built{&m.FirstToken, v.firstToken}, built{&m.Parts, v.parts})
	}
	for _, c := range charts {
		var err error
		if *c.into, err = c.build(); err != nil {
			return nil, err
		}
	}
	var err error
	if m.Goals, err = v.goals(); err != nil {
		return nil, err
	}
	m.Met, m.Missed, m.Unjudged = count(m.Goals, "met"), count(m.Goals, "missed"), count(m.Goals, "not measured")
	m.addClients()
	m.addVerified()
	return m, nil
}

// A measure is a row of the table of all figures of each client.
type measure struct{ Label, Format, Field string }

var measures = []measure{
	{"Published a round", "held", ".publish_bytes"},
	{"Publish time, median round", "ms", ".publish_ms"},
	{"Publish speed, median round", "mbs", ".publish_mb_s"},
	{"Reloaded each time", "held", ".reload_bytes"},
	{"Timed reloads", "count", ".iterations"},
	{"Reload time, min", "ms", ".reload_ms.min"},
	{"Reload time, p50", "ms", ".reload_ms.p50"},
	{"Reload time, mean", "ms", ".reload_ms.mean"},
	{"Reload time, max", "ms", ".reload_ms.max"},
	{"Reload speed, p50", "mbs", ".reload_mb_s"},
	{"Carried by the loopback interface", "size", ".loopback_bytes"},
	{"Memory held", "held", ".held_bytes"},
}

func (m *view) addClients() {
	for _, c := range []struct {
		name, place string
		tcp         bool
		results.Measurement
	}{
		{"This client, TCP", "transfer.tcp", true, m.Transfer.TCP},
		{"This client, shared memory", "transfer.shared_memory", false, m.Transfer.SharedMemory},
		{"Python client, TCP", "peer.python_client", true, m.Peer.PythonClient},
	} {
		payload := c.ReloadBytes * int64(c.Iterations)
		m.Clients = append(m.Clients, client{
			Name: c.name, Place: c.place, Reloaded: payload > 0,
			// Other processes use the interface too: half is far from both sides.
			Misnamed: payload > 0 && (c.LoopbackBytes > payload/2) != c.tcp,
		})
	}
}

// addVerified gathers the flags of both layouts and of every plane of ours that
// reloaded.
func (m *view) addVerified() {
	for _, part := range []struct {
		place, words   string
		counts, passed bool
	}{
		{"realistic.verified", "the realistic layout", true, m.Realistic.Verified},
		{"tiny.verified", "the tiny layout", true, m.Tiny.Verified},
		{"transfer.tcp.verified", "reloads over TCP", m.Clients[0].Reloaded, m.Transfer.TCP.Verified},
		{"transfer.shared_memory.verified", "reloads by shared memory", m.Clients[1].Reloaded, m.Transfer.SharedMemory.Verified},
	} {
		if !part.counts {
			continue
		}
		if m.Verified != "" {
			m.Verified += " * "
		}
		m.Verified += part.place
		if !part.passed {
			m.Unverified = append(m.Unverified, part.words)
		}
	}
}

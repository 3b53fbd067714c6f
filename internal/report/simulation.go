package report

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strconv"

	"ollamoon/internal/results"
)

// RenderSimulation writes the page for the results of a simulation.
func RenderSimulation(w io.Writer, f *results.Simulation) error {
	v, err := valuesOf(f)
	if err != nil {
		return fmt.Errorf("rendering the simulation: %w", err)
	}
	page, err := template.New("simulation.html").Funcs(v.functions()).ParseFS(files, "page/*")
	if err != nil {
		return fmt.Errorf("reading the report's templates: %w", err)
	}
	model, err := newSimulationView(f, v)
	if err != nil {
		return fmt.Errorf("rendering the simulation: %w", err)
	}
	if err := page.Execute(w, model); err != nil {
		return fmt.Errorf("rendering the simulation: %w", err)
	}
	return nil
}

// A simulationView is what the simulation's templates are given.
type simulationView struct {
	*results.Simulation
	// Workers is the cluster, and Load the load, of the figures that stand alone; Ours
	// and Others are the places of their runs, Ours the one with the largest store.
	Workers int
	Load    float64
	Ours    string
	Others  []simulated

	Hits, FirstToken, BySize, Stores, Balance *chart // nil where there is nothing to compare

	All      []simulated // runs
	Shared   []simulated // those with a store
	Versions []string    // parts, in order

	Columns, StoreColumns []measure // of the tables of runs
}

// A simulated run, and its place in the file.
type simulated struct {
	*results.SimulatedRun
	Place, Name string
}

// policyNames are the policies in words, and the classes of their bars.
var policyNames = map[string]struct{ name, class string }{
	"round-robin":       {"Round robin", "peer"},
	"least-outstanding": {"Least outstanding", "seal"},
	"cache-affinity":    {"Cache affinity", "shared"},
	"shared":            {"Shared store", "tcp"},
}

var runColumns = []measure{
	{"Workers", "count", ".workers"},
	{"Load", "decimal", ".load"},
	{"Store", "percent", ".store_part"},
	{"Hits", "percent", ".hit_rate"},
	{"Of ideal", "percent", ".of_ideal"},
	{"First token, p50", "time", ".ttft_ms.p50"},
	{"p90", "time", ".ttft_ms.p90"},
	{"p99", "time", ".ttft_ms.p99"},
	{"mean", "time", ".ttft_ms.mean"},
	{"max", "time", ".ttft_ms.max"},
	{"Last token, mean", "time", ".total_ms"},
	{"Imbalance", "decimal", ".imbalance"},
	{"Busy", "percent", ".busy"},
	{"Length", "seconds", ".seconds"},
	{"Pages hit", "count", ".hits"},
	{"of them own", "count", ".own_hits"},
}

var storeColumns = []measure{
	{"Workers", "count", ".workers"},
	{"Load", "decimal", ".load"},
	{"Part", "percent", ".store_part"},
	{"Size", "size", ".store_bytes"},
	{"Used at the end", "size", ".used_bytes"},
	{"Loaded", "size", ".loaded_bytes"},
	{"Published", "size", ".published_bytes"},
	{"Traffic", "speed", ".traffic_mb_s"},
	{"Evicted pages", "count", ".evicted_pages"},
}

func newSimulationView(f *results.Simulation, v values) (*simulationView, error) {
	m := &simulationView{
		Simulation: f, Versions: slices.Sorted(maps.Keys(f.Versions)),
		Columns: runColumns, StoreColumns: storeColumns,
	}
	for i := range f.Runs {
		r := simulated{&f.Runs[i], "runs." + strconv.Itoa(i), policyNames[f.Runs[i].Policy].name}
		m.All = append(m.All, r)
		if r.StorePart > 0 {
			m.Shared = append(m.Shared, r)
		}
	}
	m.Workers = focus(distinct(m.All, func(r simulated) int { return r.Workers }))
	loads := distinct(m.All, func(r simulated) float64 { return r.Load })
	m.Load = loads[len(loads)/2]
	for _, r := range m.compared() {
		switch {
		case r.Workers != m.Workers || r.Load != m.Load:
		case r.StorePart > 0:
			m.Ours = r.Place
		default:
			m.Others = append(m.Others, r)
		}
	}
	return m, m.addCharts(v)
}

// focus is 64 if that is among the numbers, else the middle one.
func focus(numbers []int) int {
	if slices.Contains(numbers, 64) {
		return 64
	}
	return numbers[len(numbers)/2]
}

// distinct returns what some runs have, in order.
func distinct[T cmp.Ordered](runs []simulated, of func(simulated) T) []T {
	var all []T
	for _, r := range runs {
		all = append(all, of(r))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// compared are all runs but those with a store that is not the largest.
func (m *simulationView) compared() []simulated {
	largest := 0.0
	for _, r := range m.All {
		largest = max(largest, r.StorePart)
	}
	return slices.DeleteFunc(slices.Clone(m.All), func(r simulated) bool { return r.StorePart > 0 && r.StorePart < largest })
}

func (m *simulationView) addCharts(v values) error {
	ideal := row{"A store that never forgets", "limit", "Ideal", "trace.ideal_hits / trace.pages", "", false}
	middle := func(r simulated) bool { return r.Load == m.Load }
	here := func(r simulated) bool { return r.Workers == m.Workers }
	byWorkers := func(r simulated) string { return fmt.Sprintf("%d workers", r.Workers) }
	byLoad := func(r simulated) string { return "Load " + number(r.Load) }
	partName := func(r simulated) string { return number(100*r.StorePart) + " % of distinct pages" }
	atLoad := fmt.Sprintf("at load %s.", number(m.Load))
	atSize := fmt.Sprintf("with %d workers.", m.Workers)
	for _, c := range []struct {
		into   **chart
		chart  chart
		format string
		rows   []row
	}{
		{&m.Hits, chart{ID: "hits", Title: "Pages that were not computed", Caption: "Of all pages of prompts, " + atLoad}, "percent", append(rowsOf(m.compared(), middle, byWorkers, nil, ".hit_rate"), ideal)},
		{&m.FirstToken, chart{ID: "first", Title: "Time to the first token, p90, by load", Caption: "What nine of ten requests stay below, " + atSize}, "time", rowsOf(m.compared(), here, byLoad, nil, ".ttft_ms.p90")},
		{&m.BySize, chart{ID: "by-size", Title: "Time to the first token, p90, by workers", Caption: "What nine of ten requests stay below, " + atLoad}, "time", rowsOf(m.compared(), middle, byWorkers, nil, ".ttft_ms.p90")},
		{&m.Stores, chart{ID: "stores", Title: "What a smaller store hits, of the ideal", Caption: "Hits over those of a store that never forgets, " + atSize}, "percent", rowsOf(m.Shared, here, byLoad, partName, ".of_ideal")},
		{&m.Balance, chart{ID: "balance", Title: "Imbalance, by load", Caption: "The busiest engine’s time with prompts over the mean, " + atSize}, "decimal", rowsOf(m.compared(), here, byLoad, nil, ".imbalance")},
	} {
		if len(c.rows) == 0 {
			continue
		}
		var err error
		if *c.into, err = v.chart(c.chart, c.format, c.rows); err != nil {
			return err
		}
	}
	return nil
}

// rowsOf makes a chart's rows of those runs that it shows: their groups, the names
// of their bars (nil: the policies') and the figure.
func rowsOf(runs []simulated, shows func(simulated) bool, group, name func(simulated) string, figure string) []row {
	var rows []row
	for _, r := range runs {
		if !shows(r) {
			continue
		}
		label := r.Name
		if name != nil {
			label = name(r)
		}
		rows = append(rows, row{group(r), policyNames[r.Policy].class, label, r.Place + figure, "", false})
	}
	return rows
}

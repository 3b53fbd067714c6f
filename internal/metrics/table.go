package metrics

import (
	"slices"
	"strings"

	"ollamoon/internal/worker"
	"ollamoon/page"
	"ollamoon/store/breaker"
)

// prefix of all names.
const prefix = "ollamoon_"

// A kind is how Prometheus takes a metric.
type kind string

const (
	counter   kind = "counter"
	gauge     kind = "gauge"
	histogram kind = "histogram"
	info      kind = "info" // a gauge of 1 whose labels are the news
)

// A label has one of a few values; nil stands for a text that is known later.
type label struct {
	name   string
	values []string
}

// A definition is a row of the table.
type definition struct {
	name   string
	kind   kind
	help   string
	labels []label
}

// table has all metrics, in the order of the reference.
var table []*definition

// define adds a row.
func define(kind kind, name, help string, labels ...label) *definition {
	d := &definition{prefix + name, kind, help, labels}
	table = append(table, d)
	return d
}

// The metrics.
var (
	buildInfo = define(info, "build_info", "The versions of this program, of Go and of the engine.",
		label{"version", nil}, label{"go_version", nil}, label{"engine", nil})
	sharing = define(gauge, "sharing", "1 while prompts are shared, else 0.")
	reasons = define(info, "sharing_info", "Why prompts are not shared; the reason is empty while they are.", label{"reason", nil})

	requests = define(counter, "requests_total",
		"Completions that are over, by endpoint and by whether their prompt was shared or why it passed through.",
		label{"endpoint", worker.Endpoints()}, label{"outcome", words(worker.Outcomes())})
	promptTokens = define(counter, "prompt_tokens_total",
		"Tokens of prompts by where they came from; the sources add up to the prompts. slot: rows that the engine's slot had. "+
			"memory: from the engine's memory of conversations (of prompts that pass through, in slot). store: loaded. computed: by the engine.",
		label{"source", []string{"slot", "memory", "store", "computed"}})
	lookupTokens = define(counter, "lookup_tokens_total", "Tokens of whole pages for which the store was asked.")
	hitTokens    = define(counter, "hit_tokens_total", "Those of lookup_tokens_total that were loaded; counted in the same event.")

	pagesLoaded     = define(counter, "pages_loaded_total", "Pages that the store had and that were good.")
	bytesLoaded     = define(counter, "loaded_bytes_total", "Bytes of these pages' objects.")
	pagesPublished  = define(counter, "pages_published_total", "Pages stored newly.")
	bytesPublished  = define(counter, "published_bytes_total", "Bytes of these pages' objects.")
	pagesRejected   = define(counter, "pages_rejected_total", "Objects that were not the page that their key promised, by reason.", label{"reason", page.Reasons()})
	pagesDiscarded  = define(counter, "pages_discarded_total", "Objects that were rejected twice and removed from the store.")
	discardFailures = define(counter, "page_discard_failures_total", "Objects that were rejected twice and could not be removed.")

	storeCalls = define(histogram, "store_call_seconds", "Time of calls that reached the store, by operation.", label{"operation", operations})
	storeFails = define(counter, "store_call_failures_total",
		"Items of these calls that failed, by operation and kind; what is not there, or there already, did not fail. "+
			"canceled: the caller had gone, which is no failure of the store's.",
		label{"operation", operations}, label{"kind", failureWords()})
	storeRefused = define(counter, "store_calls_refused_total", "Calls that did not reach the store because its breaker was open.")
	storeState   = define(gauge, "store_breaker_state", "1 for the state of the store's breaker, else 0; not_opened: there is no store yet.",
		label{"state", append(words(breaker.States()), notOpened)})
	storeOpened = define(counter, "store_breaker_opened_total", "How often the breaker opened.")

	phases = define(histogram, "phase_seconds",
		"Time of the parts of sharing a prompt. lookup: telling its tokens, and asking which pages there are. load: reading and checking pages, and writing a slot file of them. "+
			"restore: from the file into a slot. save: a slot into a file. publish: from the file into the store.",
		label{"phase", []string{"lookup", "load", "restore", "save", "publish"}})
	phaseFails = define(counter, "publish_failures_total", "Slots that could not be saved, and saved slots whose pages could not all be published, by phase.",
		label{"phase", []string{"save", "publish"}})

	slots        = define(gauge, "slots", "Slots of the engine.")
	slotsBusy    = define(gauge, "slots_busy", "Slots in use.")
	waiting      = define(gauge, "requests_waiting", "Requests that wait for a slot.")
	filesRefused = define(counter, "slot_files_refused_total", "Slot files that there was no room for: what they were for was not shared.")
	pageTokens   = define(gauge, "page_tokens", "Tokens in a page; 0 while nothing is shared.")
	pageLoad     = define(gauge, "page_load_estimate_seconds", "What loading a page is expected to take; 0 before the first.")
	tokenCompute = define(gauge, "token_compute_estimate_seconds", "What computing a token is expected to take; 0 before the first.")
)

// notOpened is the state of a breaker that is not there.
const notOpened = "not_opened"

// words returns values as texts of labels.
func words[T any](values []T) []string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = text(v)
	}
	return texts
}

func text(v any) string {
	switch v := v.(type) {
	case worker.Outcome:
		return string(v)
	case breaker.State:
		return strings.ReplaceAll(v.String(), "-", "_")
	}
	panic("metrics: a label's value of an unknown type")
}

// combinations are all rows of values that a definition's labels can have; none
// when one of them is a text.
func (d *definition) combinations() [][]string {
	rows := [][]string{nil}
	for _, l := range d.labels {
		var longer [][]string
		for _, row := range rows {
			for _, value := range l.values {
				longer = append(longer, append(slices.Clone(row), value))
			}
		}
		rows = longer
	}
	return rows
}

func (d *definition) labelNames() []string {
	names := make([]string, len(d.labels))
	for i, l := range d.labels {
		names[i] = l.name
	}
	return names
}

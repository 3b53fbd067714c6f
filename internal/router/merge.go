package router

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"ollamoon/internal/trust"
)

// A listing is a worker's answer that lists things.
type listing struct {
	header http.Header
	body   []byte
	fields map[string]json.RawMessage
}

// lists are the fields of answers that hold lists.
var lists = []string{"data", "models"}

// serveMerged answers with the first worker's list and what others have besides.
// Where they have nothing besides, the answer is the first worker's, byte for byte.
func (rt *Router) serveMerged(w *response, r *http.Request, c *call) {
	all := rt.listings(r, c)
	if len(all) == 0 {
		rt.serve(w, r, c) // whatever a worker says
		return
	}
	first, more := all[0], false
	for _, name := range lists {
		merged, grew := mergeLists(all, name)
		if grew {
			first.fields[name], more = merged, true
		}
	}
	body := first.body
	if more {
		var err error
		if body, err = json.Marshal(first.fields); err != nil {
			panic(err) // it has been read from JSON
		}
	}
	for name, values := range first.header {
		if name != "Content-Length" && name != "Date" && name != "Connection" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body) // the client may have gone
}

// listings asks all healthy workers, and returns those that answer with a list, in
// their order.
func (rt *Router) listings(r *http.Request, c *call) []*listing {
	workers := rt.fleet.healthy()
	answers := make([]*listing, len(workers))
	var asked sync.WaitGroup
	for i, worker := range workers {
		asked.Go(func() {
			answers[i] = rt.list(r, c, worker)
		})
	}
	asked.Wait()
	var all []*listing
	for _, a := range answers {
		if a != nil {
			all = append(all, a)
		}
	}
	return all
}

// list asks one worker; nil is no list.
func (rt *Router) list(r *http.Request, c *call, worker *worker) *listing {
	out, err := http.NewRequestWithContext(r.Context(), r.Method, worker.spec.URL.String()+r.URL.RequestURI(), http.NoBody) //nolint:gosec // the worker's host, and a path of the client's
	if err != nil {
		return nil
	}
	out.Header = r.Header.Clone()
	trust.Strip(out.Header)
	out.Header.Del("Connection")
	if rt.config.Keys != nil {
		out.Header.Del("Authorization")
		out.Header.Del("X-Api-Key")
	}
	rt.prober.authenticate(out, c.tenant)
	client := *rt.prober.client
	client.Timeout = min(rt.config.Timeout, 10*time.Second)
	answer, err := client.Do(out) //nolint:gosec // as above
	if err != nil {
		rt.fleet.doubt(worker)
		return nil
	}
	defer answer.Body.Close()
	l := &listing{header: answer.Header}
	if l.body, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswer)); err != nil || answer.StatusCode != http.StatusOK {
		return nil
	}
	if json.Unmarshal(l.body, &l.fields) != nil {
		return nil
	}
	return l
}

// mergeLists returns the first listing's list with the elements that others have
// besides, and whether there are any.
func mergeLists(all []*listing, field string) (json.RawMessage, bool) {
	var merged []json.RawMessage
	seen := map[string]bool{}
	own := 0
	for i, l := range all {
		var elements []json.RawMessage
		if json.Unmarshal(l.fields[field], &elements) != nil {
			continue
		}
		for _, e := range elements {
			if name := nameOf(e); !seen[name] {
				seen[name] = true
				merged = append(merged, e)
			}
		}
		if i == 0 {
			own = len(merged)
		}
	}
	if len(merged) == own {
		return nil, false
	}
	return append(append([]byte("["), bytes.Join(asBytes(merged), []byte(","))...), ']'), true
}

func asBytes(messages []json.RawMessage) [][]byte {
	all := make([][]byte, len(messages))
	for i, m := range messages {
		all[i] = m
	}
	return all
}

// nameOf is what an element of a list is called.
func nameOf(element json.RawMessage) string {
	var names struct {
		ID    string `json:"id"`
		Name  string `json:"name"`
		Model string `json:"model"`
	}
	_ = json.Unmarshal(element, &names) // then it has none, and is itself
	switch {
	case names.ID != "":
		return names.ID
	case names.Name != "":
		return names.Name
	case names.Model != "":
		return names.Model
	}
	return string(element)
}

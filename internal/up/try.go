package up

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// An Answer is what came of a request of Try.
type Answer struct {
	Worker     string // that had it
	Prompt     int    // tokens
	Stored     int    // of these, loaded from the store
	Cached     int    // of these, not computed by the worker: loaded, or held by its engine
	FirstToken time.Duration
	Whole      time.Duration
	Text       string
}

// Tried is what came of Try.
type Tried struct {
	Answers []Answer
	// Elsewhere is how many pages the prefill workers have published.
	Elsewhere int64
}

// tryTokens of an answer are generated.
const tryTokens = 96

var errTry = errors.New("up: the trial failed")

// Try sends two requests of two conversations, whose prompts begin with the same
// long text, through the router. The second is sent while the first is being
// answered, so that the router gives it to another worker if there is one. The
// text is new to any store.
func (r Running) Try(ctx context.Context) (Tried, error) {
	text := story(strconv.FormatInt(time.Now().UnixNano(), 36))
	var tried Tried
	before, err := r.published(ctx)
	if err != nil {
		return tried, err
	}
	first, err := r.ask(ctx, "first", text+"How did it begin?", nil)
	if err != nil {
		return tried, err
	}
	defer first.close()
	second, err := r.ask(ctx, "second", text+"How did it end?", first)
	if err != nil {
		return tried, err
	}
	defer second.close()
	for _, a := range []*asked{first, second} {
		if err := a.finish(); err != nil {
			return tried, err
		}
		tried.Answers = append(tried.Answers, a.Answer)
	}
	after, err := r.published(ctx)
	tried.Elsewhere = after - before
	return tried, err
}

// published is how many pages the prefill workers have published.
func (r Running) published(ctx context.Context) (n int64, err error) {
	for _, c := range r.Children {
		if c.Kind != KindPrefill {
			continue
		}
		var status struct{ Pages struct{ Published int64 } }
		if err := get(ctx, r.Client, c.URL()+"/ollamoon/status", &status); err != nil {
			return 0, err
		}
		n += status.Pages.Published
	}
	return n, nil
}

// story is a text of some 1,400 tokens.
func story(about string) string {
	var s strings.Builder
	fmt.Fprintf(&s, "The log of the ship %s. ", about)
	places := []string{"the harbour", "an island", "the lighthouse", "a sandbank", "the open sea"}
	for day := range 60 {
		fmt.Fprintf(&s, "On day %d it sailed from %s to %s with a crew of %d, and nobody was lost. ",
			day+1, places[day%len(places)], places[(day*3+1)%len(places)], 20+day%7)
	}
	return s.String()
}

// An asked request is one whose answer is being streamed.
type asked struct {
	Answer
	began time.Time
	body  io.ReadCloser
	lines *bufio.Scanner
}

func (a *asked) close() { _ = a.body.Close() }

// ask sends a request of a conversation and returns when the first token is there. Beside, if not
// nil, is one that may still run.
func (r Running) ask(ctx context.Context, session, prompt string, beside *asked) (*asked, error) {
	body, err := json.Marshal(map[string]any{
		"prompt": prompt, "n_predict": tryTokens, "temperature": 0, "stream": true, "ignore_eos": true,
	})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL+"/completion", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Ollamoon-Session", session)
	a := &asked{began: time.Now()}
	response, err := r.Client.Do(request) //nolint:bodyclose // asked.close does
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errTry, err)
	}
	a.body, a.lines = response.Body, bufio.NewScanner(response.Body)
	a.lines.Buffer(nil, maxAnswer)
	if response.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(response.Body, 500)) // what there is
		a.close()
		return nil, fmt.Errorf("%w: status %d: %s", errTry, response.StatusCode, said)
	}
	if _, err := a.next(); err != nil {
		a.close()
		return nil, err
	}
	a.FirstToken = time.Since(a.began)
	if stored, ok := strings.CutPrefix(response.Header.Get("Ollamoon-Cached-Tokens"), "store="); ok {
		a.Stored, _ = strconv.Atoi(strings.TrimSpace(strings.Split(stored, ",")[0])) // 0 where it says nothing
	}
	if a.Worker, err = r.serving(ctx, beside); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

// serving is the worker on which something runs, not looking at what runs beside.
func (r Running) serving(ctx context.Context, beside *asked) (string, error) {
	var status struct {
		Workers []struct {
			ID      string
			Running int
		}
	}
	if err := get(ctx, r.Client, r.URL+"/ollamoon/status", &status); err != nil {
		return "", err
	}
	found := ""
	for _, w := range status.Workers {
		if w.Running > 0 && (beside == nil || w.ID != beside.Worker) {
			return w.ID, nil
		}
		if w.Running > 0 {
			found = w.ID
		}
	}
	return found, nil
}

// An event is a part of an answer.
type event struct {
	Content string
	Stop    bool
	Timings struct {
		Cached   int `json:"cache_n"`
		Computed int `json:"prompt_n"`
	}
	Error *struct{ Message string }
}

// next reads the next part.
func (a *asked) next() (event, error) {
	for a.lines.Scan() {
		data, ok := bytes.CutPrefix(a.lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		var e event
		if err := json.Unmarshal(data, &e); err != nil {
			return e, fmt.Errorf("%w: the answer has %.200q: %w", errTry, data, err)
		}
		if e.Error != nil {
			return e, fmt.Errorf("%w: %s", errTry, e.Error.Message)
		}
		a.Text += e.Content
		return e, nil
	}
	return event{}, fmt.Errorf("%w: the answer ends in the middle: %w", errTry, errors.Join(a.lines.Err(), io.ErrUnexpectedEOF))
}

// finish reads the rest.
func (a *asked) finish() error {
	for {
		e, err := a.next()
		if err != nil {
			return err
		}
		if e.Stop {
			a.Whole = time.Since(a.began)
			a.Cached, a.Prompt = e.Timings.Cached, e.Timings.Cached+e.Timings.Computed
			return nil
		}
	}
}

// Write writes a table of what came of a trial.
func (t Tried) Write(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "request\tworker\tprompt\tfrom the store\tcomputed there\tfirst token\twhole\t")
	for i, a := range t.Answers {
		fmt.Fprintf(table, "%d\t%s\t%d tokens\t%d\t%d\t%.2f s\t%.2f s\t\n",
			i+1, a.Worker, a.Prompt, a.Stored, a.Prompt-a.Cached, a.FirstToken.Seconds(), a.Whole.Seconds())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\npages computed and published by prefill workers: %d\n", t.Elsewhere)
	return err
}

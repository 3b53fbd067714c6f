package replay

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
	"time"

	"ollamoon/internal/worker"
)

// ErrAnswer is wrapped by errors for answers that are none of a worker's or a
// router's.
var ErrAnswer = errors.New("replay: not the answer of a cluster of ollamoon")

// maxLine bounds a line of an answer.
const maxLine = 8 << 20

// An answer is what came of a prompt.
type answer struct {
	source    string // where the engine had tokens from: store, slot or memory; empty: nothing was there
	load      time.Duration
	restore   time.Duration
	first     time.Duration // to the first token
	cached    int           // tokens that were not computed
	computed  int
	prompt    time.Duration // of computing, as the engine says
	generated int
	generate  time.Duration // of generating
}

// An event is a part of an answer.
type event struct {
	Stop    bool
	Timings struct {
		Cached      int     `json:"cache_n"`
		Computed    int     `json:"prompt_n"`
		PromptMS    float64 `json:"prompt_ms"`
		Predicted   int     `json:"predicted_n"`
		PredictedMS float64 `json:"predicted_ms"`
	}
	Error *struct{ Message string }
}

// ask sends a prompt and reads the answer. begun, if not nil, is called when the first
// token is there.
func (c *cluster) ask(ctx context.Context, url string, tokens []int32, output int, begun func()) (answer, error) {
	body, err := json.Marshal(map[string]any{
		"prompt": tokens, "n_predict": max(1, output), "temperature": 0, "stream": true, "ignore_eos": true, "cache_prompt": true,
	})
	if err != nil {
		return answer{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/completion", bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	began := time.Now()
	response, err := c.client.Do(request)
	if err != nil {
		return answer{}, fmt.Errorf("asking %s: %w", url, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(response.Body, 500)) // what there is
		return answer{}, fmt.Errorf("%w: %s answers a prompt of %d tokens with status %d: %s", ErrAnswer, url, len(tokens), response.StatusCode, said)
	}
	a := told(response.Header)
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		if a.first == 0 {
			a.first = time.Since(began)
			if begun != nil {
				begun()
			}
		}
		if done, err := a.take(data); err != nil || done {
			return a, err
		}
	}
	return a, fmt.Errorf("%w: an answer of %s ends in the middle: %w", ErrAnswer, url, errors.Join(lines.Err(), io.ErrUnexpectedEOF))
}

// take takes an event in and reports whether it is the last.
func (a *answer) take(data []byte) (bool, error) {
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		return false, fmt.Errorf("%w: %.200q: %w", ErrAnswer, data, err)
	}
	if e.Error != nil {
		return false, fmt.Errorf("%w: %s", ErrAnswer, e.Error.Message)
	}
	if !e.Stop {
		return false, nil
	}
	t := e.Timings
	a.cached, a.computed, a.generated = t.Cached, t.Computed, t.Predicted
	a.prompt, a.generate = inMS(t.PromptMS), inMS(t.PredictedMS)
	return true, nil
}

// told is what an answer's header tells.
func told(h http.Header) answer {
	var a answer
	a.source, _, _ = strings.Cut(h.Get(worker.TokensHeader), "=")
	for part := range strings.SplitSeq(h.Get(worker.TimingHeader), ",") {
		name, ms, _ := strings.Cut(strings.TrimSpace(part), ";dur=")
		took, err := strconv.ParseFloat(ms, 64)
		if err != nil {
			continue // a header of another form tells nothing
		}
		switch name {
		case "load":
			a.load = inMS(took)
		case "restore":
			a.restore = inMS(took)
		}
	}
	return a
}

func inMS(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

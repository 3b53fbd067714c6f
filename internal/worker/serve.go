package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"ollamoon/connector"
)

// maxBodyBytes bounds a request's body: well past any context.
const maxBodyBytes = 256 << 20

// serveCompletion runs a completion, whose path is one of Endpoints, on a slot.
func (w *Worker) serveCompletion(rw http.ResponseWriter, r *http.Request, endpoint, tenant string) {
	took := breakdown{outcome: Malformed}
	defer func() { w.config.Observer.Completed(took.completion(endpoint)) }()
	body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxBodyBytes))
	if err != nil {
		http.Error(rw, "reading the request: "+err.Error(), http.StatusBadRequest)
		return
	}
	req, malformed := readRequest(body)
	want := req.slotWanted()
	if malformed != nil || want >= w.config.Slots {
		want = allSlots // the engine may know what to do with it, on slots of its choice
	}
	asked := body
	ctx := r.Context()
	out := newOutbox(ctx, rw, w.config.Stall)
	defer out.drain() // after the slot has been given back
	rw = out
	begin := time.Now()
	if len(req.LoRA) > 0 {
		w.memory.distrust()
	}
	s := w.sharer(tenant)
	var tokens []int32
	if malformed == nil {
		tokens, took.outcome = w.predict(ctx, s, predictions[endpoint], &req, body)
	}
	if tokens != nil {
		took.lookup = time.Since(begin)
	}
	text := w.text(ctx, &req)
	slots, err := w.queue.takeFor(ctx, &wait{tenant: tenant, tokens: tokens, text: text, want: want, returning: w.replaced.has(text)})
	if err != nil {
		took.outcome = Gone
		return
	}
	defer func() { w.queue.give(slots) }()
	if err := w.own(ctx, slots, tenant); err != nil {
		http.Error(rw, err.Error(), http.StatusServiceUnavailable)
		return
	}
	if len(slots) != 1 {
		for _, s := range slots {
			s.forget()
		}
		w.answer(rw, r, body, nil)
		return
	}
	held := slots[0]
	held.returning = w.replaced.has(text) // the slot may have become free only now
	if w.config.Remembered > 0 {
		w.replaced.put(held.text, text)
	}
	s = w.sharer(tenant) // something else may be shared since this request waits
	fix := w.prepare(ctx, s, held, tokens, &took)
	if tokens != nil {
		took.announce(rw.Header())
	}
	if malformed == nil && (req.IDSlot == nil || *req.IDSlot < 0) {
		body = withField(body, fmt.Sprintf(`"id_slot":%d`, held.id))
	}
	alone := w.queue.alone()
	known := *held
	held.forget() // and so it stays when the answer breaks off, which is a panic
	seen := w.answer(rw, r, body, &fix)
	*held = known
	took.tokens = took.sources(seen.cached, seen.computed, fix.tokens)
	// In a full context rows may have been shifted, under tokens that look the same.
	whole := seen.ok && seen.cached+seen.computed+seen.predicted < w.config.Context-1
	confirmed := whole && tokens != nil && seen.cached+seen.computed == len(tokens)
	held.advance(tokens, seen.cached, seen.computed, w.config.UBatch, confirmed, &w.memory)
	if whole {
		held.text = text
	}
	if s != nil && s.Exact && !alone() {
		held.sound = min(held.sound, seen.cached)
	}
	if whole && took.outcome == Short {
		held.short = func(ctx context.Context) ([]int32, error) {
			return predictions[endpoint](ctx, w.config.Engine, &req, asked)
		}
	}
	s.computed(seen)
	w.record(begin, s, tokens, seen)
	if took.later && confirmed {
		slots = nil // given back by it
		w.publishLater(ctx, s, held)
	}
}

// computed notes what computing a prompt took.
func (s *sharer) computed(seen figures) {
	if s != nil && seen.ok {
		s.estimates.computed(time.Duration(seen.ms*float64(time.Millisecond)), seen.computed)
	}
}

// predict returns the tokens of a request that may be shared, or nil and why it
// passes through.
func (w *Worker) predict(ctx context.Context, s *sharer, predict predict, req *request, body []byte) ([]int32, Outcome) {
	switch {
	case s == nil:
		return nil, NothingShared
	case predict == nil:
		return nil, OtherEndpoint
	case req.CachePrompt != nil && !*req.CachePrompt, len(req.LoRA) > 0, len(req.Multimodal) > 0:
		return nil, ByRequest
	case req.slotWanted() == allSlots:
		return nil, Several
	case len(body) < s.pageTokens: // fewer bytes than a page has tokens
		return nil, Short
	}
	tokens, err := predict(ctx, w.config.Engine, req, body)
	switch {
	case errors.Is(err, errUnpredictable):
		return nil, Unpredictable
	case err != nil:
		if ctx.Err() == nil {
			w.config.Logger.Debug("a prompt was not predicted", "error", err)
		}
		return nil, NotPredicted
	case len(tokens) <= s.pageTokens:
		return nil, Short
	case len(tokens) > w.config.Context:
		return nil, Long
	}
	return tokens, Shared
}

// maxWaits bounds how often a request waits for another that computes the same
// page.
const maxWaits = 3

// prepare puts into a slot what the store has of a prompt, and publishes what it
// has not. Without tokens, the prompt is not shared. Whatever fails is logged, and
// left to the engine to compute.
func (w *Worker) prepare(ctx context.Context, s *sharer, held *slot, tokens []int32, took *breakdown) correction {
	if s == nil {
		return correction{}
	}
	w.drop(ctx, s, held)
	if tokens == nil {
		return correction{}
	}
	took.had(common(held.tokens, tokens), w.memory.longest(tokens), w.live(s, held, tokens).surely, len(tokens))
	fix, err := w.fill(ctx, s, held, tokens, took, &progress{})
	if err != nil && ctx.Err() == nil {
		w.failed(ctx, "a prefix was not shared", err, "tokens", len(tokens))
	}
	if s.Exact && (held.unknown || !s.asCold(len(tokens), len(held.tokens))) {
		w.drop(ctx, s, held) // only a part was there, or could be computed
		fix, took.store = correction{}, 0
	}
	return fix
}

// fill puts into a slot what the store has of a prompt, or someone else computes
// of it, and computes and publishes what is missing, if the role is to publish.
// at is told of what is published. After a failure the store is not asked again.
func (w *Worker) fill(ctx context.Context, s *sharer, held *slot, tokens []int32, took *breakdown, at *progress) (correction, error) {
	asked := false
	for range maxWaits {
		have, err := w.load(ctx, s, held, tokens, took)
		if err != nil {
			return correction{}, fmt.Errorf("loading: %w", err)
		}
		if have >= s.publishable(len(tokens)) {
			return correction{}, nil
		}
		if !asked && w.elsewhere(ctx, s, tokens, have) {
			asked = true
			continue
		}
		if took.later = s.Role == connector.Mixed && !s.early(); took.later || !s.Role.Publishes() {
			return correction{}, nil
		}
		release, other := s.inflight.claim(s.key(tokens, have/s.pageTokens))
		if release != nil {
			return w.compute(ctx, s, held, tokens, at, release)
		}
		select {
		case <-other:
		case <-ctx.Done():
			return correction{}, context.Cause(ctx)
		}
	}
	return correction{}, nil
}

// compute computes and publishes a prompt's pages and calls release when they
// have been published.
func (w *Worker) compute(ctx context.Context, s *sharer, held *slot, tokens []int32, at *progress, release func()) (correction, error) {
	if !w.publishing() {
		release()
		return correction{}, nil
	}
	defer w.publishes.Done()
	fix, err := w.steps(ctx, s, held, tokens, at)
	w.publishes.Go(func() {
		at.Wait()
		release()
	})
	if err != nil {
		return fix, fmt.Errorf("publishing: %w", err)
	}
	return fix, nil
}

// answer forwards a request with another body and returns what the engine says
// of the prompt. With a correction the answer's figures are put right on their
// way.
func (w *Worker) answer(rw http.ResponseWriter, r *http.Request, body []byte, fix *correction) figures {
	out := r.Clone(r.Context())
	out.Body = io.NopCloser(bytes.NewReader(body))
	out.ContentLength = int64(len(body))
	out.Header.Del("Expect")
	if fix == nil {
		w.forward.ServeHTTP(rw, out)
		return figures{}
	}
	seen := &corrector{ResponseWriter: rw, fix: *fix}
	w.forward.ServeHTTP(seen, out)
	seen.finish()
	return seen.figures
}

// A corrector passes an answer on by pieces, events of a stream or a whole body,
// puts their figures right and notes what the engine says of the prompt.
type corrector struct {
	http.ResponseWriter
	fix    correction
	stream bool
	rest   bytes.Buffer // of a piece that is not whole yet
	status int          // of a body whose length is not known before its figures are right; 0: it is sent

	figures
}

// WriteHeader decides how the answer is cut.
func (c *corrector) WriteHeader(status int) {
	c.stream = strings.HasPrefix(c.Header().Get("Content-Type"), "text/event-stream")
	if c.fix.tokens > 0 && !c.stream && c.Header().Get("Content-Length") != "" {
		c.status = status
		return
	}
	c.ResponseWriter.WriteHeader(status)
}

// Write passes on what is whole.
func (c *corrector) Write(p []byte) (int, error) {
	c.rest.Write(p)
	if !c.stream {
		return len(p), nil
	}
	data := c.rest.Bytes()
	end := bytes.LastIndexByte(data, '\n') + 1
	if end == 0 {
		return len(p), nil
	}
	whole := bytes.Clone(data[:end])
	c.rest.Next(end)
	if err := c.pass(whole); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (c *corrector) pass(piece []byte) error {
	c.note(piece)
	_, err := c.ResponseWriter.Write(c.fix.apply(piece))
	return err
}

// finish passes on what is left.
func (c *corrector) finish() {
	if c.status != 0 {
		c.Header().Set("Content-Length", strconv.Itoa(len(c.fix.apply(c.rest.Bytes()))))
		c.ResponseWriter.WriteHeader(c.status)
	}
	if c.rest.Len() > 0 {
		_ = c.pass(c.rest.Bytes()) // the client may have gone
	}
}

// FlushError sends what is there, unless the header waits for the whole body.
func (c *corrector) FlushError() error {
	if c.status != 0 {
		return nil
	}
	if err := http.NewResponseController(c.ResponseWriter).Flush(); err != nil {
		return fmt.Errorf("sending an answer: %w", err)
	}
	return nil
}

// Unwrap lets http.ResponseController reach the connection.
func (c *corrector) Unwrap() http.ResponseWriter { return c.ResponseWriter }

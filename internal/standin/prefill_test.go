package standin

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ollamoon/internal/prefill"
)

// Prefill and decode apart, in three processes: a decode worker has a long prompt
// computed by a prefill worker, loads its pages and answers as an engine would
// alone. When the prefill worker is killed in the middle of a prompt, or stays
// away, the decode worker computes it itself, and it goes on with another.
func TestPrefillAndDecodeApart(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("a secret of thirty-two characters"), 0o600); err != nil {
		t.Fatal(err)
	}
	pages := "OLLAMOON_STORE=file:" + filepath.Join(t.TempDir(), "pages")
	common := []string{pages, "OLLAMOON_SECRET_FILE=" + secret, "OLLAMOON_LOG_LEVEL=info"}
	prefills := standing(t, append(common, "OLLAMOON_ROLE=prefill")...)
	filler := prefills.serve(t, model(t)...)
	decoder := standing(t, append(common, "OLLAMOON_ROLE=decode", "OLLAMOON_PREFILL="+filler.address)...).serve(t, model(t)...)
	alone := stock(t).serve(t, model(t)...)

	text := prompt(80, "goat")
	want, got := alone.complete(text), decoder.complete(text)
	total := want.Timings.Computed
	if got.Content != want.Content {
		t.Errorf("%q, want %q", got.Content, want.Content)
	}
	// The boundary leaves at least 64 tokens.
	if end := (total - 64) / 256 * 256; got.Timings.Cached != end || got.Timings.Computed != total-end {
		t.Errorf("of %d tokens %d come from the other worker, want %d", total, got.Timings.Cached, end)
	}
	if s := decoder.status(); len(s.Prefill) != 1 || s.Prefill[0].Done != 1 || s.Pages.PagesPublished != 0 {
		t.Errorf("status %+v", s)
	}
	if s := filler.status(); s.Pages.PagesPublished != int64((total-64)/256) {
		t.Errorf("the prefill worker has published %d pages", s.Pages.PagesPublished)
	}
	// A prompt too short to be worth asking.
	if short := decoder.complete(prompt(30, "cow")); short.Timings.Cached != 0 || decoder.status().Prefill[0].Asked != 1 {
		t.Errorf("%+v", short)
	}

	// Killed in the middle.
	// On a busy machine the worker may look too slow to be asked, for a while.
	asked := func() bool { return decoder.status().Prefill[0].Asked > 1 }
	for n := 0; n < 20 && !asked(); n++ {
		long := prompt(120, "pig"+itoa(n))
		want = alone.complete(long)
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			if got := decoder.complete(long); got.Content != want.Content || got.Timings.Cached+got.Timings.Computed != want.Timings.Computed {
				t.Errorf("after a kill: %+v, want %+v", got, want)
			}
		}()
		for over := false; !over && !asked(); {
			select {
			case <-answered:
				over = true
			case <-time.After(5 * time.Millisecond):
			}
		}
		if asked() {
			time.Sleep(100 * time.Millisecond)
			_ = filler.cmd.Process.Kill()
		}
		<-answered
	}
	if s := decoder.status(); s.Prefill[0].Error == "" || s.Slots.Free != 1 {
		t.Errorf("status %+v", s)
	}

	// Gone, and back.
	if got, want := decoder.complete(prompt(60, "hen")), alone.complete(prompt(60, "hen")); got.Content != want.Content {
		t.Errorf("with nobody to ask: %q, want %q", got.Content, want.Content)
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(filler.address, "http://"), ":")
	again := prefills.start(t, append(model(t), "--port", port)...)
	again.address = filler.address
	again.ready()
	deadline := time.Now().Add(wait)
	for n := 0; ; n++ {
		if got := decoder.complete(prompt(60, "duck"+itoa(n))); got.Timings.Cached > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the prefill worker that is back is not asked: %+v", decoder.status().Prefill)
		}
	}
}

// A prefill worker that shares other pages, or pages of another size, is a mistake,
// which is told at start; and it refuses who asks for pages of another size.
func TestOtherPagesAreAMistake(t *testing.T) {
	pages := "OLLAMOON_STORE=file:" + filepath.Join(t.TempDir(), "pages")
	filler := standing(t, pages, "OLLAMOON_ROLE=prefill", "OLLAMOON_PAGE_TOKENS=128").serve(t, model(t)...)
	total := filler.complete(prompt(20, "goat")).Timings.Computed
	if s := filler.status(); s.PageTokens != 128 || !strings.Contains(s.NamespaceWords, `page_tokens="128"`) || s.Pages.PagesPublished != int64((total-64)/128) {
		t.Errorf("of %d tokens: %+v", total, s)
	}
	for says, settings := range map[string][]string{
		"pages of 256 tokens here, of 128 there": nil,
		"pages of 64 tokens here, of 128 there":  {"OLLAMOON_PAGE_TOKENS=64"},
		`tenant="other"`:                         {"OLLAMOON_PAGE_TOKENS=128", "OLLAMOON_TENANT=other"},
	} {
		settings = append(settings, pages, "OLLAMOON_ROLE=decode", "OLLAMOON_PREFILL="+filler.address)
		r := standing(t, settings...).start(t, append(model(t), "--port", freePort(t))...)
		if e := r.end(); e != (Exit{Code: 1}) {
			t.Errorf("%q: it ends with %v", says, e)
		}
		if log := r.errs.String(); !strings.Contains(log, "shares other pages") || !strings.Contains(log, says) {
			t.Errorf("%q: it says\n%s", says, log)
		}
	}
	code, said, _ := filler.ask(http.MethodPost, prefill.Path, `{"version": 1, "page_tokens": 256}`)
	if code != http.StatusConflict || !strings.Contains(said, "pages of 128 tokens here, of 256 there") {
		t.Errorf("%d %s", code, said)
	}
	filler.signal(syscall.SIGTERM)
	filler.end()
}

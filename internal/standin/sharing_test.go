package standin

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ollamoon/internal/worker"
)

func itoa(n int) string { return strconv.Itoa(n) }

// prompt is a text of so many words, each a few tokens.
func prompt(words int, about string) string {
	var b strings.Builder
	for i := range words {
		fmt.Fprintf(&b, "%s number %d is here. ", about, i)
	}
	return b.String()
}

// Two processes share by a folder: the second skips whole pages and answers the
// same. Nothing is open to other users, and nothing is left.
func TestTwoProcessesShare(t *testing.T) {
	pages := "OLLAMOON_STORE=file:" + filepath.Join(t.TempDir(), "pages")
	slots := filepath.Join(t.TempDir(), "slots")
	text := prompt(80, "sheep")

	first := standing(t, pages, "OLLAMOON_SLOTS="+slots).serve(t, model(t)...)
	cold := first.complete(text)
	if cold.Timings.Cached != 0 || cold.Timings.Computed < 600 {
		t.Fatalf("the first computes %d tokens of %d cached", cold.Timings.Computed, cold.Timings.Cached)
	}
	closedToOthers(t, slots)
	first.signal(syscall.SIGTERM)
	if e := first.end(); e != (Exit{}) {
		t.Errorf("the first ends with %v", e)
	}

	second := standing(t, pages, "OLLAMOON_SLOTS="+slots).serve(t, model(t)...)
	warm := second.complete(text)
	if warm.Content != cold.Content {
		t.Errorf("the second answers %q, the first %q", warm.Content, cold.Content)
	}
	total := cold.Timings.Computed
	if n := warm.Timings.Cached; n != total/worker.DefaultPageTokens*worker.DefaultPageTokens || n+warm.Timings.Computed != total {
		t.Errorf("of %d tokens the second finds %d and computes %d", total, n, warm.Timings.Computed)
	}
	s := second.status()
	if !s.Sharing || s.Pages.PagesHit != int64(total/worker.DefaultPageTokens) || s.Slots.Total != 1 || s.Slots.Free != 1 || !strings.Contains(s.NamespaceWords, "sha256:") {
		t.Errorf("status %+v", s)
	}
	if n := strings.Count(second.errs.String(), logPrefix); n != 1 || !strings.Contains(second.errs.String(), "prompts are shared") {
		t.Errorf("%d lines of ours in\n%s", n, second.errs)
	}

	// Clients that change adapters have the namespace made anew.
	if code, body, _ := second.ask(http.MethodPost, "/lora-adapters", "[]"); code != http.StatusOK {
		t.Errorf("adapters: %d %s", code, body)
	}
	if again := second.status(); again.Namespace != s.Namespace {
		t.Errorf("namespace %s, before %s", again.Namespace, s.Namespace)
	}

	run := filepath.Join("/tmp", fmt.Sprintf("ollamoon-%d/ollamoon-%d-run", os.Getuid(), second.cmd.Process.Pid))
	if _, err := os.Stat(run); err == nil {
		closedToOthers(t, run)
	}
	second.signal(syscall.SIGTERM)
	second.end()
	if entries, err := os.ReadDir(slots); err != nil || len(entries) != 0 {
		t.Errorf("slot files are left: %v, %v", entries, err)
	}
	if _, err := os.Stat(run); !os.IsNotExist(err) {
		t.Errorf("its folder is left: %v", err)
	}
}

func closedToOthers(t *testing.T, folder string) {
	t.Helper()
	info, err := os.Stat(folder)
	if err != nil || info.Mode() != fs.ModeDir|0o700 {
		t.Errorf("%s is %v, %v", folder, info.Mode(), err)
	}
}

// What cannot be shared is served all the same, and the reason is told.
func TestServesUnshared(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ setting, reason string }{
		"no store wanted": {"OLLAMOON_STORE=none", "no store is wanted"},
		"no folder":       {"OLLAMOON_STORE=file:" + file, file},
		"no such store":   {"OLLAMOON_STORE=cloud:", "names no store"},
		"no key":          {"OLLAMOON_SEAL_KEY_FILE=/no/such/file", "sealing key"},
	} {
		t.Run(name, func(t *testing.T) {
			r := standing(t, c.setting).serve(t, model(t)...)
			if s := r.status(); s.Sharing || !strings.Contains(s.Reason, c.reason) {
				t.Errorf("status %+v", s)
			}
			if got := r.complete("one two three").Content; got == "" {
				t.Error("it does not answer")
			}
			if n := strings.Count(r.errs.String(), logPrefix); n != 1 || !strings.Contains(r.errs.String(), "prompts are not shared") {
				t.Errorf("%d lines of ours in\n%s", n, r.errs)
			}
		})
	}
}

// The user's own folder for slots is used, and their saves and restores work.
func TestSlotsOfTheUser(t *testing.T) {
	folder := t.TempDir()
	r := standing(t, "OLLAMOON_STORE=memory:").serve(t, model(t, "--slot_save_path", folder)...)
	text := prompt(40, "goat")
	first := r.complete(text)
	code, body, _ := r.ask(http.MethodPost, "/slots/0?action=save", `{"filename":"mine"}`)
	if code != http.StatusOK || !strings.Contains(body, `"n_saved"`) {
		t.Fatalf("%d %s", code, body)
	}
	if _, err := os.Stat(filepath.Join(folder, "mine")); err != nil {
		t.Error(err)
	}
	for _, action := range []string{"erase", "restore"} {
		if code, body, _ := r.ask(http.MethodPost, "/slots/0?action="+action, `{"filename":"mine"}`); code != http.StatusOK {
			t.Fatalf("%s: %d %s", action, code, body)
		}
	}
	if again := r.complete(text); again.Timings.Cached != first.Timings.Computed-1 {
		t.Errorf("%+v after a restore, %+v before", again, first)
	}
	if s := r.status(); !s.Sharing || s.Slots.Folder != folder {
		t.Errorf("status %+v", s)
	}
}

// By socket, with a prefix and a key.
func TestSocketPrefixAndKey(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "llama.sock")
	p := standing(t, "OLLAMOON_STORE=memory:")
	p.env = append(p.env, "LLAMA_API_KEY=secret", "LLAMA_ARG_HOST="+socket)
	r := p.start(t, model(t, "--api-prefix", "/llm")...)
	r.address, r.key = "http://socket/llm", "secret"
	r.client.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	r.ready()
	if !r.status().Sharing {
		t.Errorf("status %+v", r.status())
	}
	if got := r.complete("one two three").Content; got == "" {
		t.Error("it does not answer")
	}
	if !strings.Contains(r.errs.String(), "listening on unix://"+socket+"\n") {
		t.Error("the log does not name the socket")
	}
	r.key = "wrong"
	for _, path := range []string{"/completion", "/slots/0?action=save"} {
		if code, body, _ := r.ask(http.MethodPost, path, `{"prompt":"x"}`); code != http.StatusUnauthorized || body != unauthorizedAnswer {
			t.Errorf("%s with a wrong key: %d %s", path, code, body)
		}
	}
	if code, body, _ := r.ask(http.MethodGet, statusPath, ""); code != http.StatusUnauthorized || body != unauthorizedAnswer {
		t.Errorf("status with a wrong key: %d %s", code, body)
	}
}

// TLS ends in the stand-in; this build of the engine has none at all.
func TestTLS(t *testing.T) {
	certificate, key, roots := selfSigned(t)
	r := standing(t, "OLLAMOON_STORE=memory:").start(t, model(t, "--port", freePort(t), "--ssl-cert-file", certificate, "--ssl-key-file", key)...)
	port := r.cmd.Args[len(r.cmd.Args)-5]
	r.address = "https://127.0.0.1:" + port
	r.client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	r.ready()
	if got := r.complete("one two three").Content; got == "" {
		t.Error("it does not answer")
	}
}

func selfSigned(t *testing.T) (certificate, key string, roots *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	certificate, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	for path, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AddCert(parsed)
	return certificate, key, roots
}

// A cache with a sliding window is shared: a prompt longer than the window is
// computed once.
func TestSlidingWindow(t *testing.T) {
	r := standing(t, "OLLAMOON_STORE=memory:").serve(t, "-m", installed(t).Window, "-ngl", "0", "-t", "1", "-c", "2048", "-np", "1", "--cache-ram", "0")
	if s := r.status(); !s.Sharing {
		t.Fatalf("not shared: %+v", s)
	}
	prompt := prompt(170, "window")
	first := r.complete(prompt)
	r.complete("one two three")
	if again := r.complete(prompt); again.Content != first.Content || again.Timings.Cached < 768 {
		t.Errorf("%+v, want the answer of %+v and three pages reused or more", again, first)
	}
}

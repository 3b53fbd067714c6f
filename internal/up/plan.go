package up

import (
	"net"
	"strconv"
	"strings"
	"time"
)

// A Kind is what a child does.
type Kind string

// The kinds, in the order in which they start.
const (
	KindStore   Kind = "store"
	KindPrefill Kind = "prefill"
	KindDecode  Kind = "decode"
	KindRouter  Kind = "router"
)

// drain is how long running requests have to finish at the end.
const drain = 30 * time.Second

// A Child is a worker or the router, as it is to be started.
type Child struct {
	Name    string
	Kind    Kind
	Address string // host:port where it listens
	Threads int    // that its engine computes with; the router has no engine
	Args    []string
}

// URL is where a child is reached from this machine.
func (c Child) URL() string {
	host, port, _ := net.SplitHostPort(c.Address)
	if ip := net.ParseIP(host); ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.To4() == nil {
			host = "::1"
		}
	}
	return "http://" + net.JoinHostPort(host, port)
}

// A Site is what a plan takes from the machine.
type Site struct {
	Store string // URL of the store
	Ports []int  // one for each worker, prefill workers first, and the router's
	// Files that the children share.
	SecretFile, SealKeyFile, AdminTokenFile string
}

// Workers is how many workers options have, each of which has an engine.
func (o Options) Workers() int {
	prefill, decode := o.counts()
	return prefill + decode
}

// Crowded reports whether there are more engines than threads for them.
func (o Options) Crowded() bool { return o.Workers() > o.Threads }

// Plan returns the children but those of the store, in the order in which they
// start.
func Plan(o Options, at Site) []Child {
	prefill, decode := o.counts()
	threads := divide(o.Threads, prefill+decode)
	var children []Child
	var prefills []string
	for i := range prefill {
		c := o.worker(KindPrefill, i, at, threads[i], nil)
		prefills = append(prefills, c.URL())
		children = append(children, c)
	}
	route := []string{
		"route", "--host", o.Host, "--port", strconv.Itoa(at.Ports[prefill+decode]),
		"--secret-file", at.SecretFile, "--drain", drain.String(),
	}
	if o.APIKeys != "" {
		route = append(route, "--api-keys", o.APIKeys, "--admin-token-file", at.AdminTokenFile)
	}
	for i := range decode {
		c := o.worker(KindDecode, i, at, threads[prefill+i], prefills)
		route = append(route, c.Name+"="+c.URL())
		children = append(children, c)
	}
	return append(children, Child{
		Name: string(KindRouter), Kind: KindRouter, Args: route,
		Address: net.JoinHostPort(o.Host, strconv.Itoa(at.Ports[prefill+decode])),
	})
}

// worker returns a worker, the i-th of its kind. Ports are in the order of
// prefill workers and decode workers.
func (o Options) worker(kind Kind, i int, at Site, threads int, prefills []string) Child {
	prefill, _ := o.counts()
	role, port := string(kind), at.Ports[i]
	if kind == KindDecode {
		port = at.Ports[prefill+i]
		if prefill == 0 {
			role = "mixed" // nobody else computes and publishes
		}
	}
	args := []string{"llama-server", "-m", o.Model, "-c", strconv.Itoa(o.Context), "-t", strconv.Itoa(threads), "-tb", strconv.Itoa(threads)}
	if kind == KindPrefill {
		args = append(args, "-np", "1") // one prompt after the other: the next may begin as it does
	}
	args = append(args, o.Args...)
	tenants := "one"
	if o.APIKeys != "" {
		tenants = "router"
	}
	args = append(args, "--host", "127.0.0.1", "--port", strconv.Itoa(port),
		"--ollamoon-binary", o.Binary, "--ollamoon-store", at.Store, "--ollamoon-role", role,
		"--ollamoon-prefill="+strings.Join(prefills, ","), "--ollamoon-secret-file", at.SecretFile,
		"--ollamoon-tenants", tenants)
	if at.SealKeyFile != "" {
		args = append(args, "--ollamoon-seal-key-file", at.SealKeyFile)
	}
	return Child{
		Name: string(kind) + "-" + strconv.Itoa(i+1), Kind: kind, Threads: threads, Args: args,
		Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
	}
}

// divide divides threads among engines, of which the first get what is left over
// and each gets one at least.
func divide(threads, engines int) []int {
	shares := make([]int, engines)
	for i := range shares {
		shares[i] = max(1, threads/engines)
		if threads >= engines && i < threads%engines {
			shares[i]++
		}
	}
	return shares
}

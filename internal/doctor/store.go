package doctor

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ollamoon/internal/ollama"
	"ollamoon/internal/room"
	"ollamoon/mooncake"
	"ollamoon/store/open"
)

// minStoreBytes is less room than a store of files is of use with.
const minStoreBytes = 1 << 30

func (p *patient) store(ctx context.Context) {
	rawURL := p.Settings.Store
	if rawURL == open.None {
		p.add(Warn, "store", "name one by --store", "none: prompts are not shared")
		return
	}
	if err := open.Check(rawURL); err != nil {
		p.add(Fail, "store", "correct its URL", "%v", err)
		return
	}
	if dir, ok, err := open.Folder(rawURL); ok && err == nil {
		p.folder(ctx, dir)
		return
	}
	if config, ok, err := open.Mooncake(rawURL); ok && err == nil {
		p.mooncake(ctx, config)
		return
	}
	p.add(Warn, "store", "file: or mooncake: for a store that several share", "%s: the pages are one process's own, and go with it", rawURL)
}

// folder looks at a store of files. That of an attached Ollama is its user's, and
// was looked at with it.
func (p *patient) folder(ctx context.Context, dir string) {
	if p.attached != nil && p.attached.Store == p.Settings.Store {
		return
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		above := dir
		for err != nil {
			above = filepath.Dir(above)
			_, err = os.Stat(above)
		}
		probe, err := os.CreateTemp(above, ".ollamoon-*.part")
		if err != nil {
			p.add(Fail, "store", "name another by --store file:FOLDER", "%s is not there and cannot be made: %v", dir, err)
			return
		}
		_ = errors.Join(probe.Close(), os.Remove(probe.Name())) // a leftover is empty
		p.ok("store", "%s is made when a worker starts, %s free", dir, size(room.Bytes(above)))
		return
	}
	if err := ollama.CheckStore(ctx, dir); err != nil {
		p.add(Fail, "store", "", "%v", err)
		return
	}
	if free := room.Bytes(dir); free < minStoreBytes {
		p.add(Warn, "store", "make room, or name another by --store file:FOLDER", "%s has only %s free", dir, size(free))
		return
	}
	p.ok("store", "%s has %s free", dir, size(room.Bytes(dir)))
}

// mooncake looks at a Mooncake Store, from the master to the owner of an object.
func (p *patient) mooncake(ctx context.Context, config mooncake.Config) {
	dialer := net.Dialer{Timeout: 3 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", config.Master)
	if err != nil {
		p.add(Fail, "master", "start mooncake_master, correct the address in --store, or open its RPC port in the firewall", "%s cannot be reached: %v", config.Master, err)
		return
	}
	_ = conn.Close()
	plane := config.SharedMemory
	config.SharedMemory = "off" // TCP is what every worker needs
	client, err := mooncake.Dial(ctx, config)
	switch {
	case errors.Is(err, mooncake.ErrWireVersion):
		p.add(Fail, "master", "run a Mooncake of version 0.3.11 to 0.3.13, and see that the port is mooncake_master's RPC port (50051 by default), not that of its metrics",
			"%s speaks no protocol that is known: %v", config.Master, err)
		return
	case err != nil:
		p.add(Fail, "master", "correct --store", "%v", err)
		return
	}
	defer client.Close() //nolint:errcheck,contextcheck // the looks are over
	p.ok("master", "%s speaks the protocol of %s", config.Master, client.WireVersion())
	p.metadata(ctx, config.Metadata)
	if !p.owner(ctx, client) || plane == "off" {
		return
	}
	config.SharedMemory = plane
	local, err := mooncake.Dial(ctx, config)
	if err != nil {
		p.add(Fail, "shared memory", "start mooncake_client on this machine, as this user or root, or leave shared_memory out of --store", "%v", err)
		return
	}
	defer local.Close() //nolint:errcheck,contextcheck // as above
	if local.Plane() == "tcp" {
		p.ok("shared memory", "no mooncake_client of this store runs on this machine: pages come by TCP")
		return
	}
	p.ok("shared memory", "with a mooncake_client of this machine")
}

// metadata asks a metadata server for something that it does not have.
func (p *patient) metadata(ctx context.Context, address string) {
	if !strings.HasPrefix(address, "http") {
		p.ok("metadata", "%s: owners tell their ports themselves", address)
		return
	}
	do := "start the master with --enable_http_metadata_server=true, or Mooncake's own metadata server; correct metadata= in --store"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"?key="+url.QueryEscape("ollamoon/doctor"), http.NoBody)
	if err != nil {
		p.add(Fail, "metadata", do, "%v", err)
		return
	}
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}} // nothing to close, and no proxy
	response, err := client.Do(request)
	if err != nil {
		p.add(Fail, "metadata", do, "%v", err)
		return
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusNotFound && response.StatusCode != http.StatusOK {
		p.add(Fail, "metadata", do, "%s answers %s: that is no metadata server", address, response.Status)
		return
	}
	p.ok("metadata", "%s answers", address)
}

// probeBytes is the size of the object by which an owner is looked at.
const probeBytes = 64 << 10

// owner puts an object, reads it back and removes it.
func (p *patient) owner(ctx context.Context, client *mooncake.Client) bool {
	object := make([]byte, probeBytes)
	_, _ = rand.Read(object) // does not fail
	key := fmt.Sprintf("ollamoon/doctor/%x", object[:16])
	begin := time.Now()
	if err := client.BatchPut(ctx, []mooncake.Item{{Key: key, Bytes: object}})[0]; err != nil {
		p.add(Fail, "owners", putAdvice(err), "an object cannot be put: %v", err)
		return false
	}
	defer client.BatchRemove(context.WithoutCancel(ctx), []string{key}, true) // of no use any more
	back := make([]byte, probeBytes)
	if err := client.BatchGet(ctx, []mooncake.Item{{Key: key, Bytes: back}})[0]; err != nil {
		p.add(Fail, "owners", putAdvice(err), "an object that was put cannot be read: %v", err)
		return false
	}
	took := time.Since(begin)
	if !bytes.Equal(object, back) {
		p.add(Fail, "owners", "see whether a program between here and the owner changes what it passes on; start the owner again", "an object came back with other bytes")
		return false
	}
	owner := "an owner"
	if known, err := client.BatchQuery(ctx, []string{key}); err == nil && known[0].Err == nil && len(known[0].Replicas) > 0 {
		owner = known[0].Replicas[0].Endpoint
	}
	p.ok("owners", "%s took %s and gave it back in %v", owner, size(probeBytes), took.Round(time.Millisecond))
	return true
}

func putAdvice(err error) string {
	switch {
	case errors.Is(err, mooncake.ErrNoSpace):
		return "start a mooncake_client with memory (--global_segment_size=4gb), or give it more"
	case errors.Is(err, mooncake.ErrUnavailable):
		return "start the mooncake_client again, open its ports in the firewall, and see that the address it tells (--host, MC_TCP_BIND_ADDRESS) is one that this machine reaches"
	case errors.Is(err, mooncake.ErrTenant):
		return "register the tenant at the master, or leave tenant= out of --store"
	}
	return "see the logs of mooncake_master and mooncake_client"
}

package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"ollamoon/internal/cluster"
	"ollamoon/internal/engine"
	"ollamoon/internal/results"
	"ollamoon/internal/supervise"
	"ollamoon/page"
)

// Options say what to measure, and how often.
type Options struct {
	Iterations   int    // timed reloads of each contender
	Rounds       int    // timed rounds of publishing of each
	Metadata     string // cluster.MetadataHTTP or cluster.MetadataP2P
	Seal         Seal
	SegmentBytes int64
	Programs     string // folder of Mooncake's programs; those of the project if empty
	Logs         string // folder for the servers' logs; none are kept if empty

	// Contender is a command that runs Serve with its last argument, Sender one that
	// runs Send with its last three.
	Contender, Sender supervise.Command
	// Engine says what is measured with a real model; nothing if nil.
	Engine *EngineOptions

	Version  string // of this program
	Command  string // what reproduces the run
	Progress *Progress
}

// warmUps of each kind come before what is recorded.
const warmUps = 2

// fill is how much of the segment a run uses at most: below the level at which
// Mooncake begins to evict.
const fill = 0.88

// ErrOptions is wrapped by the error for options that make no run.
var ErrOptions = errors.New("bench: bad options")

func (o Options) validate() error {
	switch o.Seal {
	case Checksum, MAC, NoSeal:
	default:
		return fmt.Errorf("%w: no seal %q; use checksum, mac or none", ErrOptions, o.Seal)
	}
	if o.Iterations < 1 || o.Rounds < 1 {
		return fmt.Errorf("%w: %d iterations, %d rounds; both must be positive", ErrOptions, o.Iterations, o.Rounds)
	}
	const contenders = 3
	each := (2*realistic.pages() - realistic.sharedPages()) * realistic.objectBytes(o.Seal)
	bytes := contenders * each
	if o.Engine != nil {
		if err := o.Engine.validate(); err != nil {
			return err
		}
		bytes += engineBytes
	}
	if need := int64(float64(bytes) / fill); o.SegmentBytes < need {
		return fmt.Errorf("%w: a segment of %d bytes; the run needs %d", ErrOptions, o.SegmentBytes, need)
	}
	return nil
}

// peerSource is the Python client's side.
//
//go:embed peer.py
var peerSource []byte

// A run is what its parts share.
type run struct {
	Options
	cluster *cluster.Cluster
	dir     string // for sockets, the peer's source and pages
	random  *rand.Rand
	key     []byte // of the MAC
}

// Run measures and returns the results. It returns when all that it started has
// ended.
func Run(ctx context.Context, o Options) (*results.File, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	var programs engine.Programs
	if o.Engine != nil {
		var err error
		if programs, err = engine.Find(); err != nil { // known before the run, not in its midst
			return nil, err
		}
	}
	host, err := ThisHost(ctx)
	if err != nil {
		return nil, err
	}
	r, err := newRun(o)
	if err != nil {
		return nil, err
	}
	defer r.remove()
	if err := os.WriteFile(filepath.Join(r.dir, "peer.py"), peerSource, 0o600); err != nil {
		return nil, fmt.Errorf("writing the Python client's side: %w", err)
	}
	if err := r.startCluster(ctx); err != nil {
		return nil, err
	}
	defer r.cluster.Close()

	large, err := r.measure(ctx)
	if err != nil {
		return nil, err
	}
	small, err := r.demonstrate(ctx)
	if err != nil {
		return nil, err
	}
	f := assemble(o, large, small)
	if o.Engine != nil {
		if f.Engine, err = r.measureEngine(ctx, programs); err != nil {
			return nil, err
		}
	}
	f.Host, f.GeneratedAt = host, time.Now().Truncate(time.Second)
	f.Store.Metadata = "http"
	if o.Metadata == cluster.MetadataP2P {
		f.Store.Metadata = r.cluster.Metadata()
	}
	return f, nil
}

// newRun makes a run, whose folder its owner removes.
func newRun(o Options) (*run, error) {
	r := &run{Options: o, random: rand.New(chaCha()), key: make([]byte, page.KeyBytes)} //nolint:gosec // seeded by the system
	_, _ = chaCha().Read(r.key)                                                         // never fails
	var err error
	if r.dir, err = os.MkdirTemp("", "ollamoon-bench-"); err != nil {
		return nil, fmt.Errorf("making a folder for sockets: %w", err)
	}
	return r, nil
}

// remove removes a run's folder.
func (r *run) remove() { _ = os.RemoveAll(r.dir) } // in the system's temporary folder

func (r *run) startCluster(ctx context.Context) (err error) {
	step, end := r.Progress.stage("starting Mooncake", 1)
	defer end()
	r.cluster, err = cluster.Start(ctx, cluster.Config{
		Programs: r.Programs, Metadata: r.Metadata, SegmentBytes: r.SegmentBytes, LogDir: r.Logs,
	})
	if err == nil {
		step()
	}
	return err
}

// assemble makes the results file of what two sessions brought.
func assemble(o Options, large, small *session) *results.File {
	pageBytes := int64(large.scenario.layout.Bytes())
	publish, reload := int64(large.scenario.pages())*pageBytes, int64(large.hit)*pageBytes
	of := func(name string) results.Measurement {
		for _, c := range large.contenders {
			if c.name == name {
				return c.record.measurement(publish, reload)
			}
		}
		return results.Measurement{}
	}
	f := &results.File{
		SchemaVersion: 1,
		Command:       o.Command,
		Versions:      map[string]string{"ollamoon": o.Version, "go": runtime.Version()},
		Store:         results.Store{SegmentBytes: o.SegmentBytes, Seal: string(o.Seal)},
		Realistic:     large.results(o.Seal),
		Tiny:          small.results(o.Seal),
		Transfer:      results.Transfer{TCP: of(oursTCP), SharedMemory: of(oursShared)},
		Peer:          results.Peer{PythonClient: of(python)},
		Limit:         large.limits.results(),
	}
	for part, version := range large.versions {
		f.Versions[part] = version
	}
	return f
}

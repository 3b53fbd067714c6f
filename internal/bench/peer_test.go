package bench

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ollamoon/internal/cluster"
)

// Every contender answers the same calls alike.
func TestContenders(t *testing.T) {
	c, err := cluster.Start(t.Context(), cluster.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := &run{Options: options(t), cluster: c, dir: t.TempDir(), random: rand.New(rand.NewPCG(1, 2))}
	if err := os.WriteFile(filepath.Join(r.dir, "peer.py"), peerSource, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{python, oursTCP, oursShared} {
		t.Run(name, func(t *testing.T) {
			x, err := r.open(t.Context(), tiny, name)
			if err != nil {
				t.Fatal(err)
			}
			defer x.close()
			testContender(t, x)
		})
	}
}

func testContender(t *testing.T, x *session) {
	ctx, c := t.Context(), x.contenders[0]
	for _, step := range []struct {
		op     string
		tokens []int32
		pages  int
	}{
		{opReload, x.b, 0}, // of an empty store
		{opPublish, x.a, 4},
		{opPublish, x.a, 0}, // what is there is left
		{opReload, x.b, 3},
		{opExtend, x.b, 1},
		{opReload, x.b, 4},
		{opRemove, x.b, 0},
		{opReload, x.b, 0},
		{opPublish, x.a, 3}, // A's last page is there still
	} {
		if _, err := x.ask(ctx, c, step.op, step.tokens, step.pages); err != nil {
			t.Fatal(err)
		}
	}
	// A's last page is not B's, which is what a reload expects.
	if _, err := x.ask(ctx, c, opReload, x.a, 4); err == nil || !strings.Contains(err.Error(), "page 3") {
		t.Errorf("a page that is not what was published: %v", err)
	}
	if _, err := c.call(ctx, call{Op: "dance"}); err == nil || !strings.Contains(err.Error(), "dance") {
		t.Errorf("an unknown call: %v", err)
	}
	got, err := c.call(ctx, call{Op: opClose})
	if err != nil || got.HeldBytes <= 0 {
		t.Errorf("closing: held %d bytes, %v", got.HeldBytes, err)
	}
}

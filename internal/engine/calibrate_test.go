package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// started is a real engine that is ready.
func started(t *testing.T, model string, args ...string) (p *Process, slots string) {
	t.Helper()
	programs, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	if model == "" {
		model = programs.Model
	} else {
		model = programs.Window
	}
	slots = t.TempDir()
	p, err = Start(Config{
		Binary: programs.Binary, Slots: slots,
		Args: Arguments{Args: append([]string{"-m", model, "-ngl", "0", "-t", "1", "-c", "2048"}, args...), Env: os.Environ()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(10 * time.Second) })
	if err := p.Ready(within(t)); err != nil {
		t.Fatal(err)
	}
	return p, slots
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestCalibrate(t *testing.T) {
	for name, c := range map[string]struct {
		model string
		args  []string
		want  string // geometry, by section
	}{
		"one slot":     {args: []string{"-np", "1"}, want: "transposed=false keys=30x(type 1, 384 bytes) values=30x(type 1, 384 bytes)"},
		"four slots":   {args: []string{"-np", "4"}, want: "transposed=false keys=30x(type 1, 384 bytes) values=30x(type 1, 384 bytes)"},
		"unified":      {want: "transposed=false keys=30x(type 1, 384 bytes) values=30x(type 1, 384 bytes)"},
		"q8_0":         {args: []string{"-np", "1", "-ctk", "q8_0", "-ctv", "q8_0"}, want: "transposed=false keys=30x(type 8, 204 bytes) values=30x(type 8, 204 bytes)"},
		"no attention": {args: []string{"-np", "1", "-fa", "off"}, want: "transposed=true keys=30x(type 1, 384 bytes) values=30x(type 1, 384 bytes)"},
		"window": {model: "window", args: []string{"-np", "1"}, want: "transposed=false keys=3x(type 1, 512 bytes) values=3x(type 1, 512 bytes); " +
			"transposed=false keys=15x(type 1, 512 bytes) values=15x(type 1, 512 bytes)"},
	} {
		t.Run(name, func(t *testing.T) {
			p, slots := started(t, c.model, c.args...)
			shape, err := Calibrate(within(t), p.Client, slots, 512)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range shape.Sections {
				got = append(got, s.Geometry())
			}
			if strings.Join(got, "; ") != c.want {
				t.Errorf("geometry %q", got)
			}
			if entries, err := os.ReadDir(slots); err != nil || len(entries) != 0 {
				t.Errorf("left behind: %v, %v", entries, err)
			}
			props, err := p.Props(within(t))
			if err != nil || props.TotalSlots == 0 || props.Settings.ContextTokens == 0 || props.BuildInfo == "" {
				t.Errorf("%+v, %v", props, err)
			}
			if loras, err := p.LoRAs(within(t)); err != nil || len(loras) != 0 {
				t.Errorf("%v, %v", loras, err)
			}
		})
	}
}

func TestSaveOfOtherTokensIsIneffective(t *testing.T) {
	p, _ := started(t, "", "-np", "1")
	if _, err := p.Save(within(t), 0, "x", 5); !errors.Is(err, ErrIneffective) {
		t.Errorf("%v", err)
	}
	if err := p.Restore(within(t), 0, "no-such-file", 5); !errors.Is(err, ErrRefused) {
		t.Errorf("%v", err)
	}
}

func TestFindSaysHowToInstall(t *testing.T) {
	t.Setenv("OLLAMOON_LLAMA_DIR", filepath.Join(t.TempDir(), "empty"))
	if _, err := Find(); !errors.Is(err, ErrNotInstalled) || !strings.Contains(fmt.Sprint(err), "scripts/setup.sh") {
		t.Errorf("%v", err)
	}
}

// An engine that ends says why.
func TestReadyOfWhatEnds(t *testing.T) {
	programs, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(Config{Binary: programs.Binary, Slots: t.TempDir(), Args: Arguments{Args: []string{"-m", "/no/such/file"}, Env: os.Environ()}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop(0)
	if err := p.Ready(within(t)); err == nil || !strings.Contains(err.Error(), "/no/such/file") {
		t.Errorf("%v", err)
	}
}

// Several engines are calibrated at once in one folder, by processes of the same
// user.
func TestFilesOfACalibrationAreThisProcesss(t *testing.T) {
	mine := fmt.Sprintf("ollamoon-%d-", os.Getpid())
	if got := calibrationFile("saved"); !strings.HasPrefix(got, mine) || got == calibrationFile("made") {
		t.Errorf("%q, want one of this process's, %q", got, mine)
	}
}

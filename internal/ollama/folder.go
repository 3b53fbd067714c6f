package ollama

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"ollamoon/internal/settings"
	"ollamoon/internal/standin"
)

// A State is how far a folder is attached; see the package's comment.
type State string

// The states of a folder.
const (
	Detached    State = "detached"
	Interrupted State = "interrupted"
	Updated     State = "updated"
	Attached    State = "attached"
	Missing     State = "missing"
	Lost        State = "lost"
)

var (
	// ErrLost: the real llama-server is not there any more.
	ErrLost = errors.New("the real llama-server is gone: install Ollama again, then attach")
	// ErrBusy: another attach or detach works on the same folder.
	ErrBusy = errors.New("another ollamoon attach or detach is at work; try again when it has ended")
)

// What a name holds.
type content int

const (
	holdsNothing content = iota
	holdsReal            // a program that is no stand-in
	holdsStandIn
)

// A folder holds a llama-server.
type folder struct {
	path string
	disk disk
}

func (f folder) server() string { return filepath.Join(f.path, standin.Name) }
func (f folder) kept() string   { return filepath.Join(f.path, standin.RealName) }
func (f folder) link() string   { return filepath.Join(f.path, settings.FileName) }

// part is the name of a file in the making, which becomes another's.
func (f folder) part(of string) string {
	return filepath.Join(f.path, ".ollamoon-"+filepath.Base(of)+".part")
}

// state looks at the folder. The file of settings, if it is there, tells that it
// was attached, unless someone has put it beside the llama-server.
func (f folder) state(file string) (State, error) {
	settings := file != "" && file != f.link() && exists(file)
	server, err := contentOf(f.server())
	if err != nil {
		return "", err
	}
	kept, err := contentOf(f.kept())
	if err != nil {
		return "", err
	}
	switch {
	case server == holdsReal && kept == holdsNothing && settings:
		return Updated, nil
	case server == holdsReal && kept == holdsNothing:
		return Detached, nil
	case server == holdsReal && kept == holdsReal && f.same():
		return Interrupted, nil
	case server == holdsReal:
		return Updated, nil
	case kept != holdsReal:
		return Lost, nil
	case server == holdsStandIn:
		return Attached, nil
	}
	return Missing, nil
}

func contentOf(path string) (content, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return holdsNothing, nil
	case err != nil:
		return holdsNothing, err
	case !info.Mode().IsRegular():
		return holdsNothing, fmt.Errorf("%w: %s is no program", ErrNoServer, path)
	case standin.StandsIn(path):
		return holdsStandIn, nil
	}
	return holdsReal, nil
}

// same reports whether both names are one file, or one is a copy that was made for
// want of a second name.
func (f folder) same() bool {
	server, err := os.Stat(f.server())
	kept, keptErr := os.Stat(f.kept())
	if err != nil || keptErr != nil {
		return false
	}
	return os.SameFile(server, kept) ||
		server.Size() == kept.Size() && server.ModTime().Equal(kept.ModTime()) && equal(f.server(), f.kept())
}

// lock keeps other attaches and detaches out until it is released.
func (f folder) lock() (release func(), err error) {
	file, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("%w (%s)", ErrBusy, f.path)
	}
	return func() { _ = file.Close() }, nil
}

// sweep removes what an interrupted attach has left in the making.
func (f folder) sweep() error {
	for _, of := range []string{f.server(), f.kept(), f.link()} {
		if err := f.disk.remove(f.part(of)); err != nil {
			return err
		}
	}
	return nil
}

// keep gives the real llama-server its other name, which an older one may have.
func (f folder) keep() error {
	part := f.part(f.kept())
	if err := f.disk.link(f.server(), part); err != nil {
		return err
	}
	return f.disk.rename(part, f.kept())
}

// point leads the settings' name in the folder to the file of settings, unless it
// is that file.
func (f folder) point(to string) error {
	if to == f.link() {
		return nil
	}
	if target, err := os.Readlink(f.link()); err == nil && target == to {
		return nil
	}
	part := f.part(f.link())
	if err := f.disk.symlink(to, part); err != nil {
		return err
	}
	return f.disk.rename(part, f.link())
}

// unpoint removes the link to the settings.
func (f folder) unpoint() error {
	if info, err := os.Lstat(f.link()); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return nil //nolint:nilerr // it is not there, or not ours
	}
	return f.disk.remove(f.link())
}

// restore makes the folder as it was before it was attached, whatever its state.
func (f folder) restore() error {
	state, err := f.state("")
	if err != nil {
		return err
	}
	switch state {
	case Lost:
		return fmt.Errorf("%s: %w", f.path, ErrLost)
	case Attached, Missing:
		err = f.disk.rename(f.kept(), f.server())
	case Detached, Interrupted, Updated:
		err = f.disk.remove(f.kept()) // of the same file, or of an older Ollama
	}
	if err != nil {
		return err
	}
	return errors.Join(f.unpoint(), f.sweep(), f.disk.sync(f.path))
}

// equal reports whether two files have the same contents.
func equal(a, b string) bool {
	x, err := os.Open(a) //nolint:gosec // a program
	if err != nil {
		return false
	}
	defer x.Close()      //nolint:errcheck // read only
	y, err := os.Open(b) //nolint:gosec // as above
	if err != nil {
		return false
	}
	defer y.Close() //nolint:errcheck // as above
	p, q := make([]byte, 1<<16), make([]byte, 1<<16)
	for {
		n, err := io.ReadFull(x, p)
		m, _ := io.ReadFull(y, q) // its end shows in the count
		if n != m || !bytes.Equal(p[:n], q[:m]) {
			return false
		}
		if err != nil {
			return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		}
	}
}

// linked reports whether the real llama-server has both names.
func (f folder) linked() bool {
	server, err := os.Lstat(f.server())
	kept, keptErr := os.Lstat(f.kept())
	return err == nil && keptErr == nil && os.SameFile(server, kept)
}

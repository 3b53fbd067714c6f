package standin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// A weightsFile is what is known of a file of weights.
type weightsFile struct {
	Digest string `json:"digest"` // SHA-256, hexadecimal
	// LongRoPE says that the position encoding depends on the size of the context.
	LongRoPE bool `json:"long_rope"`
}

// longRoPE is in the header of a model whose factors of the position encoding
// are others for long contexts; it is looked for in the first headerBytes.
const (
	longRoPE    = "rope_factors_long"
	headerBytes = 64 << 20
)

// errBlobName: a file is not what its name, a digest, says.
var errBlobName = errors.New("standin: a blob has another digest than its name")

// errChanged: a file changed while it was read, so that nothing is known of it.
var errChanged = errors.New("standin: weights changed while they were read")

// A weightsCache remembers digests of files in a folder, by the files' inode,
// size and time of modification; without a folder it remembers nothing.
type weightsCache struct{ folder string }

// openWeightsCache returns the cache in the user's cache folder.
func openWeightsCache() weightsCache {
	caches, err := os.UserCacheDir()
	if err != nil {
		return weightsCache{}
	}
	folder := filepath.Join(caches, "ollamoon", "weights")
	if private(folder) != nil {
		return weightsCache{}
	}
	return weightsCache{folder: folder}
}

// file returns what is known of a file, and reads it only when nothing is. A
// file of Ollama's, which has its digest as its name, has to be what it says.
func (c weightsCache) file(ctx context.Context, path string) (weightsFile, error) {
	f, err := os.Open(path) //nolint:gosec // the user's model
	if err != nil {
		return weightsFile{}, fmt.Errorf("reading weights: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	info, err := f.Stat()
	if err != nil {
		return weightsFile{}, fmt.Errorf("reading weights: %w", err)
	}
	place := ""
	if s, ok := info.Sys().(*syscall.Stat_t); ok && c.folder != "" {
		place = filepath.Join(c.folder, fmt.Sprintf("%d-%d-%d-%d.json", s.Dev, s.Ino, info.Size(), info.ModTime().UnixNano()))
	}
	w, known := recall(place)
	if !known {
		w, err = readWeights(ctx, f)
	}
	if err != nil {
		return weightsFile{}, fmt.Errorf("reading weights: %w", err)
	}
	if after, err := f.Stat(); err != nil || after.Size() != info.Size() || !after.ModTime().Equal(info.ModTime()) {
		return weightsFile{}, fmt.Errorf("%w: %s", errChanged, path)
	}
	if named, ok := strings.CutPrefix(filepath.Base(path), "sha256-"); ok && len(named) == 2*sha256.Size && named != w.Digest {
		return weightsFile{}, fmt.Errorf("%w: %s is %s", errBlobName, path, w.Digest)
	}
	if !known {
		remember(place, w)
	}
	return w, nil
}

func recall(place string) (weightsFile, bool) {
	data, err := os.ReadFile(place) //nolint:gosec // a name of ours
	if err != nil {
		return weightsFile{}, false
	}
	var w weightsFile
	if json.Unmarshal(data, &w) != nil || len(w.Digest) != 2*sha256.Size {
		return weightsFile{}, false
	}
	return w, true
}

// remember writes what is known of a file. What fails costs the next process
// the time to read the file again.
func remember(place string, w weightsFile) {
	if place == "" {
		return
	}
	data, err := json.Marshal(w)
	if err != nil {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(place), "new-*")
	if err != nil {
		return
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), place)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
}

// readWeights reads a file from start to end.
func readWeights(ctx context.Context, f io.Reader) (weightsFile, error) {
	var w weightsFile
	hash := sha256.New()
	buffer := make([]byte, 1<<20)
	overlap := 0 // bytes kept at the buffer's start, to find what lies across two reads
	for read := 0; ; {
		if err := ctx.Err(); err != nil {
			return weightsFile{}, context.Cause(ctx)
		}
		n, err := f.Read(buffer[overlap:])
		hash.Write(buffer[overlap : overlap+n])
		if read < headerBytes && !w.LongRoPE {
			seen := buffer[:overlap+n]
			w.LongRoPE = bytes.Contains(seen, []byte(longRoPE))
			overlap = min(len(longRoPE)-1, len(seen))
			copy(buffer, seen[len(seen)-overlap:])
		} else {
			overlap = 0
		}
		read += n
		if errors.Is(err, io.EOF) {
			w.Digest = hex.EncodeToString(hash.Sum(nil))
			return w, nil
		}
		if err != nil {
			return weightsFile{}, err
		}
	}
}

// splitName is that of a model's file when there are several.
var splitName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// shards returns all files of a model, of which one is named.
func shards(path string) []string {
	parts := splitName.FindStringSubmatch(path)
	if parts == nil {
		return []string{path}
	}
	count, err := strconv.Atoi(parts[3])
	if err != nil || count == 0 {
		return []string{path}
	}
	paths := make([]string, count)
	for i := range paths {
		paths[i] = fmt.Sprintf("%s-%05d-of-%s.gguf", parts[1], i+1, parts[3])
	}
	return paths
}

// model returns what is known of a model: the digests of its files one after
// the other.
func (c weightsCache) model(ctx context.Context, path string) (weightsFile, error) {
	var all weightsFile
	var digests []string
	for _, shard := range shards(path) {
		w, err := c.file(ctx, shard)
		if err != nil {
			return weightsFile{}, err
		}
		digests = append(digests, w.Digest)
		all.LongRoPE = all.LongRoPE || w.LongRoPE
	}
	all.Digest = strings.Join(digests, "+")
	return all, nil
}

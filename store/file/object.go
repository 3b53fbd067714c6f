package file

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"path/filepath"
)

const (
	shardCount = 256
	nameDigits = 2 * sha256.Size
	blockBytes = 4096
)

// objectName returns the name of a key's file and the shard that it is in.
func objectName(key string) (name string, shard int) {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:]), int(sum[0])
}

// isObjectName tells objects from what others may have put into a shard's folder.
func isObjectName(name string) bool {
	if len(name) != nameDigits {
		return false
	}
	_, err := hex.DecodeString(name)
	return err == nil
}

func (s *Store) shardDir(shard int) string {
	return filepath.Join(s.dir, fmt.Sprintf("%02x", shard))
}

// path returns where a key's object is, or would be, and the shard that it is in.
func (s *Store) path(key string) (string, int) {
	name, shard := objectName(key)
	return filepath.Join(s.shardDir(shard), name), shard
}

// footerMagic ends every object's file. The last byte is the format's version.
var footerMagic = [8]byte{'O', 'M', 'F', 'I', 'L', 'E', 0, 1}

// footer returns what follows an object in its file: the key, the object's length
// in 8 bytes, the key's in 4, both little-endian, and the magic.
func footer(key string, length int64) []byte {
	b := make([]byte, 0, footerBytes(key))
	b = append(b, key...)
	b = binary.LittleEndian.AppendUint64(b, uint64(length))   //nolint:gosec // a length
	b = binary.LittleEndian.AppendUint32(b, uint32(len(key))) //nolint:gosec // at most store.MaxKeyBytes
	return append(b, footerMagic[:]...)
}

func footerBytes(key string) int { return len(key) + 8 + 4 + len(footerMagic) }

// blocks returns what a file of size bytes counts against the budget.
func blocks(size int64) int64 { return (size + blockBytes - 1) / blockBytes * blockBytes }

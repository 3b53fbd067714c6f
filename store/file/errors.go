package file

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"ollamoon/store"
)

// diskFull reports whether the system had no room for more bytes.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// writeError gives an error of the system that ended a write its outcome.
func writeError(err error) error {
	switch {
	case err == nil:
		return nil
	case diskFull(err), errors.Is(err, syscall.EFBIG):
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %w", store.ErrReadOnly, err)
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

// readError gives an error of the system that ended a read its outcome.
func readError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return store.ErrNotFound
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

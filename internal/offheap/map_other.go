//go:build !unix

package offheap

import "errors"

func mapped(int) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmap([]byte) {}

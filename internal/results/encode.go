package results

import (
	"encoding/json"
	"fmt"

	"ollamoon/internal/wholefile"
)

// encode returns a file's JSON, for people and programs.
func encode(file any) ([]byte, error) {
	data, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing results: %w", err)
	}
	return append(data, '\n'), nil
}

// write writes a file, whole or not at all.
func write(path string, file any) error {
	data, err := encode(file)
	if err != nil {
		return err
	}
	if err := wholefile.Write(path, data); err != nil {
		return fmt.Errorf("writing results: %w", err)
	}
	return nil
}

package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"ollamoon/slotfile"
)

// ErrNoSharing is wrapped when an engine's cache cannot be shared; the error
// says why.
var ErrNoSharing = errors.New("engine: cannot be shared")

// calibrationTokens is the prompt of a calibration: one page, for this purpose,
// and short enough to cost nothing.
const calibrationTokens = 16

// Calibrate finds out whether an engine's slots can be cut and made again: it
// computes a few tokens, saves them, cuts the file, makes it again, which must
// give the same bytes, erases the slot, restores the made file and asks once
// more, which must reuse it. It returns the shape of the engine's slot files, for
// slot 0, and leaves that slot empty.
//
// A cache whose slot files have two sections has layers with a sliding window of
// so many tokens, or, with a window of 0, keeps all rows of them. An engine with a
// window reuses only what is longer, so the file that it has to reuse is made
// longer with rows of zeros.
//
// An engine that lacks what is needed gives an error that wraps ErrNoSharing;
// any other error is a failed call.
func Calibrate(ctx context.Context, c *Client, slotFolder string, window int) (slotfile.Shape, error) {
	const slot = 0
	tokens, err := calibrationPrompt(ctx, c)
	if err != nil {
		return slotfile.Shape{}, err
	}
	if _, err := c.Prefill(ctx, slot, tokens); err != nil {
		return slotfile.Shape{}, fmt.Errorf("calibrating: %w", err)
	}
	shape, err := cutAndMake(ctx, c, slot, slotFolder, tokens)
	if err != nil {
		return slotfile.Shape{}, err
	}
	if len(shape.Sections) > 1 && window > 0 {
		if tokens, err = restoreZeros(ctx, c, slot, slotFolder, shape, tokens, window); err != nil {
			return slotfile.Shape{}, err
		}
	}
	// One token past the restored ones, so that there is something to compute.
	timings, err := c.Prefill(ctx, slot, append(tokens, tokens[0]))
	if err != nil {
		return slotfile.Shape{}, fmt.Errorf("calibrating: %w", err)
	}
	if timings.CacheTokens != len(tokens) {
		return slotfile.Shape{}, fmt.Errorf("%w: of %d restored tokens it reuses %d", ErrNoSharing, len(tokens), timings.CacheTokens)
	}
	if err := c.Erase(ctx, slot); err != nil {
		return slotfile.Shape{}, fmt.Errorf("calibrating: %w", err)
	}
	return shape, nil
}

// calibrationPrompt is some text's tokens, as many as are needed.
func calibrationPrompt(ctx context.Context, c *Client) ([]int32, error) {
	text := "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
	tokens, err := c.Tokenize(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("calibrating: %w", err)
	}
	if len(tokens) < calibrationTokens {
		return nil, fmt.Errorf("%w: it makes only %d tokens of %q", ErrNoSharing, len(tokens), text)
	}
	return tokens[:calibrationTokens], nil
}

// cutAndMake saves a slot, cuts the file and makes it again from its page, and
// restores what was made into the erased slot.
func cutAndMake(ctx context.Context, c *Client, slot int, folder string, tokens []int32) (slotfile.Shape, error) {
	saved, made := calibrationFile("saved"), calibrationFile("made")
	none := slotfile.Shape{}
	defer os.Remove(filepath.Join(folder, saved)) //nolint:errcheck // a leftover harms nobody
	defer os.Remove(filepath.Join(folder, made))  //nolint:errcheck // a leftover harms nobody
	if _, err := c.Save(ctx, slot, saved, len(tokens)); err != nil {
		return none, noSharing("saving a slot", err)
	}
	data, err := os.ReadFile(filepath.Join(folder, saved)) //nolint:gosec // a file of ours
	if err != nil {
		return none, fmt.Errorf("calibrating: %w", err)
	}
	file, err := slotfile.Parse(bytes.NewReader(data), int64(len(data)), len(tokens))
	if err != nil {
		return none, noSharing("reading a slot file", err)
	}
	var again bytes.Buffer
	if err := remake(&again, file); err != nil {
		return none, noSharing("cutting a slot file", err)
	}
	if !bytes.Equal(again.Bytes(), data) {
		return none, fmt.Errorf("%w: a slot file made again from its pages differs", ErrNoSharing)
	}
	if err := os.WriteFile(filepath.Join(folder, made), again.Bytes(), 0o600); err != nil {
		return none, fmt.Errorf("calibrating: %w", err)
	}
	if err := c.Erase(ctx, slot); err != nil {
		return none, noSharing("erasing a slot", err)
	}
	if err := c.Restore(ctx, slot, made, len(tokens)); err != nil {
		return none, noSharing("restoring a slot", err)
	}
	return file.Shape, nil
}

// calibrationFile names a file apart from those of other processes, which may
// calibrate in the same folder at the same time.
func calibrationFile(what string) string {
	return fmt.Sprintf("ollamoon-%d-calibration-%s", os.Getpid(), what)
}

// restoreZeros fills a slot with a prompt longer than a sliding window, made of
// the given tokens, and returns it.
func restoreZeros(ctx context.Context, c *Client, slot int, folder string, shape slotfile.Shape, tokens []int32, window int) ([]int32, error) {
	made := calibrationFile("zeros")
	defer os.Remove(filepath.Join(folder, made)) //nolint:errcheck // a leftover harms nobody
	pages := window/len(tokens) + 2
	prompt := slices.Repeat(tokens, pages)
	sections := make([]slotfile.Pages, len(shape.Sections))
	for i := range sections {
		zeros := make([]byte, shape.Sections[i].PageBytes(len(tokens)))
		sections[i].Payloads = slices.Repeat([][]byte{zeros}, pages)
	}
	file, err := os.OpenFile(filepath.Join(folder, made), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) //nolint:gosec // a file of ours
	if err != nil {
		return nil, fmt.Errorf("calibrating: %w", err)
	}
	err = shape.Write(file, prompt, len(tokens), sections)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("calibrating: %w", err)
	}
	if err := c.Restore(ctx, slot, made, len(prompt)); err != nil {
		return nil, noSharing(fmt.Sprintf("restoring %d tokens, a window of %d and more", len(prompt), window), err)
	}
	return prompt, nil
}

// remake writes a file whose tokens are one page from that page.
func remake(to *bytes.Buffer, file *slotfile.File) error {
	n := len(file.Tokens)
	pages := make([]slotfile.Pages, len(file.Sections))
	for i := range file.Sections {
		s := &file.Sections[i]
		if !s.Complete(n) {
			return fmt.Errorf("section %d has other cells than 0 to %d", i, n-1)
		}
		payload := make([]byte, s.Shape.PageBytes(n))
		if err := s.ReadPage(payload, 0, n); err != nil {
			return err
		}
		pages[i].Payloads = [][]byte{payload}
	}
	return file.Shape.Write(to, file.Tokens, n, pages)
}

// noSharing tells a refusal of the engine, or of a file, from a call that
// failed on its way.
func noSharing(doing string, err error) error {
	if errors.Is(err, ErrRefused) || errors.Is(err, ErrIneffective) ||
		errors.Is(err, slotfile.ErrFormat) || errors.Is(err, slotfile.ErrUnsupported) || errors.Is(err, slotfile.ErrPage) {
		return fmt.Errorf("%w: %s: %w", ErrNoSharing, doing, err)
	}
	return fmt.Errorf("calibrating: %s: %w", doing, err)
}

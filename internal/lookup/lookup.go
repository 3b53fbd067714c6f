package lookup

import (
	"context"
	"fmt"

	"ollamoon/prefix"
	"ollamoon/store"
)

// A Prompt is a named list of tokens.
type Prompt struct {
	Name   string
	Tokens []int32
}

// A Report says what a store has of prompts.
type Report struct {
	Store      string      `json:"store,omitempty"`
	Namespace  string      `json:"namespace,omitempty"`
	PageTokens int         `json:"page_tokens"`
	NotAsked   string      `json:"not_asked,omitempty"` // why the store was not asked
	Prompts    []Found     `json:"prompts"`
	Difference *Difference `json:"difference,omitempty"` // between two prompts
}

// Found is what a store has of one prompt.
type Found struct {
	Name   string `json:"name"`
	Tokens int    `json:"tokens"`
	// Pages are the full ones; the store was asked for them unless it was not at all.
	Pages []Page `json:"pages"`
	// Run is how many pages from the first on are there; LoadTokens is how many
	// tokens a worker can load of them: one at least is left to compute.
	Run        int `json:"run"`
	LoadTokens int `json:"load_tokens"`
}

// A Page is a full page of a prompt.
type Page struct {
	Key   string `json:"key"`
	There bool   `json:"there"`
}

// A Difference is where two prompts part.
type Difference struct {
	// Token is the first that differs, from 0; it is the length of a prompt that
	// is the start of the other one, and of both when Same.
	Token int  `json:"token"`
	Same  bool `json:"same"`
	// Page is the token's, from 0; the pages before it are the same in both.
	Page int `json:"page"`
	// IDs are the two tokens there, and Texts what they stand for, if that is known;
	// where a prompt has ended they are missing.
	IDs    [2]*int32  `json:"ids"`
	Texts  [2]*string `json:"texts"`
	Before *string    `json:"before,omitempty"` // text before it, if that is known
}

// Prompts asks a store, unless it is nil, for the pages of prompts, and compares
// two of them.
func Prompts(ctx context.Context, s store.Store, keys prefix.Config, prompts ...Prompt) (*Report, error) {
	r := &Report{PageTokens: keys.PageTokens, Namespace: keys.Model}
	for _, p := range prompts {
		found := Found{Name: p.Name, Tokens: len(p.Tokens), Pages: []Page{}}
		if s != nil {
			if err := found.ask(ctx, s, keys, p.Tokens); err != nil {
				return nil, err
			}
		}
		r.Prompts = append(r.Prompts, found)
	}
	if len(prompts) == 2 {
		r.Difference = Compare(prompts[0].Tokens, prompts[1].Tokens, keys.PageTokens)
	}
	return r, nil
}

func (f *Found) ask(ctx context.Context, s store.Store, keys prefix.Config, tokens []int32) error {
	pages, err := keys.Pages(tokens)
	if err != nil {
		return err
	}
	names := make([]string, len(pages))
	for i, p := range pages {
		names[i] = p.Key
	}
	there := []bool{}
	if len(names) > 0 {
		if there, err = s.BatchExist(ctx, names); err != nil {
			return fmt.Errorf("looking up %d pages: %w", len(names), err)
		}
	}
	for i, name := range names {
		f.Pages = append(f.Pages, Page{Key: name, There: there[i]})
	}
	f.Run = prefix.Run(there)
	f.LoadTokens = min(f.Run, max(0, len(tokens)-1)/keys.PageTokens) * keys.PageTokens
	return nil
}

// Compare finds where two prompts part.
func Compare(a, b []int32, pageTokens int) *Difference {
	d := &Difference{}
	for d.Token < min(len(a), len(b)) && a[d.Token] == b[d.Token] {
		d.Token++
	}
	for i, tokens := range [][]int32{a, b} {
		if d.Token < len(tokens) {
			d.IDs[i] = &tokens[d.Token]
		}
	}
	d.Same = len(a) == len(b) && d.Token == len(a)
	d.Page = d.Token / pageTokens
	return d
}

package engine

import "strings"

// CacheFlags are what arguments say about the meaning and the form of a cache's
// rows. What is empty was not given.
type CacheFlags struct {
	KeyType, ValueType string   // of elements
	Overrides          []string // of the model's metadata
	RoPE               []string // options of the position encoding with their values
	ControlVectors     []Adapter
	ControlLayers      string // the layers that control vectors apply to
	// Exact are options that change only the last bits, with their values.
	Exact []string
}

// An Adapter is a file of differences to a model's weights or activations.
type Adapter struct {
	Path  string
	Scale string // as it was given; empty: 1
}

var (
	optKeyType   = option{names: []string{"-ctk", "--cache-type-k"}, variable: "LLAMA_ARG_CACHE_TYPE_K"}
	optValueType = option{names: []string{"-ctv", "--cache-type-v"}, variable: "LLAMA_ARG_CACHE_TYPE_V"}
	optOverride  = option{names: []string{"--override-kv"}}

	optRoPE = []option{
		{names: []string{"--rope-scaling"}, variable: "LLAMA_ARG_ROPE_SCALING_TYPE"},
		{names: []string{"--rope-scale"}, variable: "LLAMA_ARG_ROPE_SCALE"},
		{names: []string{"--rope-freq-base"}, variable: "LLAMA_ARG_ROPE_FREQ_BASE"},
		{names: []string{"--rope-freq-scale"}, variable: "LLAMA_ARG_ROPE_FREQ_SCALE"},
		{names: []string{"--yarn-orig-ctx"}, variable: "LLAMA_ARG_YARN_ORIG_CTX"},
		{names: []string{"--yarn-ext-factor"}, variable: "LLAMA_ARG_YARN_EXT_FACTOR"},
		{names: []string{"--yarn-attn-factor"}, variable: "LLAMA_ARG_YARN_ATTN_FACTOR"},
		{names: []string{"--yarn-beta-slow"}, variable: "LLAMA_ARG_YARN_BETA_SLOW"},
		{names: []string{"--yarn-beta-fast"}, variable: "LLAMA_ARG_YARN_BETA_FAST"},
	}

	optControlVector = option{names: []string{"--control-vector"}}
	optControlScaled = option{names: []string{"--control-vector-scaled"}}
	optControlLayers = option{names: []string{"--control-vector-layer-range"}} // takes two values

	optExact = []option{
		optBatch, optUBatch,
		{names: []string{"-fa", "--flash-attn"}, variable: "LLAMA_ARG_FLASH_ATTN"},
		{names: []string{"-ngl", "--gpu-layers", "--n-gpu-layers"}, variable: "LLAMA_ARG_N_GPU_LAYERS"},
		{names: []string{"-dev", "--device"}, variable: "LLAMA_ARG_DEVICE"},
		{names: []string{"-sm", "--split-mode"}, variable: "LLAMA_ARG_SPLIT_MODE"},
		{names: []string{"-ts", "--tensor-split"}, variable: "LLAMA_ARG_TENSOR_SPLIT"},
		{names: []string{"-mg", "--main-gpu"}, variable: "LLAMA_ARG_MAIN_GPU"},
		{names: []string{"-ot", "--override-tensor"}, variable: "LLAMA_ARG_OVERRIDE_TENSOR"},
		{names: []string{"-ncmoe", "--n-cpu-moe"}, variable: "LLAMA_ARG_N_CPU_MOE"},
		{names: []string{"-cmoe", "--cpu-moe"}, variable: "LLAMA_ARG_CPU_MOE", bare: true},
		{names: []string{"--no-repack", "-nr"}, variable: "LLAMA_ARG_NO_REPACK", bare: true},
		{names: []string{"--no-kv-offload", "-nkvo"}, variable: "LLAMA_ARG_NO_KV_OFFLOAD", bare: true},
	}
)

// CacheFlags returns what these arguments say about the cache. LoRA adapters
// are not in it: they can change while the engine runs, so it is asked for them.
func (a Arguments) CacheFlags() CacheFlags {
	var f CacheFlags
	f.KeyType, _ = a.value(optKeyType)
	f.ValueType, _ = a.value(optValueType)
	f.Overrides = a.values(optOverride)
	f.RoPE = a.settled(optRoPE)
	f.Exact = a.settled(optExact)
	for _, list := range a.values(optControlVector) {
		for path := range strings.SplitSeq(list, ",") {
			f.ControlVectors = append(f.ControlVectors, Adapter{Path: path})
		}
	}
	for _, list := range a.values(optControlScaled) {
		for item := range strings.SplitSeq(list, ",") {
			v := Adapter{Path: item}
			if i := strings.LastIndexByte(item, ':'); i >= 0 {
				v = Adapter{Path: item[:i], Scale: item[i+1:]}
			}
			f.ControlVectors = append(f.ControlVectors, v)
		}
	}
	for i := range a.Args {
		if optControlLayers.named(a.Args[i]) && i+2 < len(a.Args) {
			f.ControlLayers = a.Args[i+1] + "-" + a.Args[i+2]
		}
	}
	return f
}

// settled returns the options that are given, with their values.
func (a Arguments) settled(options []option) []string {
	var given []string
	for _, o := range options {
		name := o.names[len(o.names)-1]
		if o.bare {
			if a.has(o) {
				given = append(given, name)
			}
		} else if v, ok := a.value(o); ok {
			given = append(given, name+" "+v)
		}
	}
	return given
}

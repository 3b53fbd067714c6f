package simulate

// What all presets assume. The speeds of slot files are those that this project
// measured on a processor, with files in memory; a GPU's rows cross its bus first,
// at a speed above these. The links are what such machines have.
const (
	restoreSpeed = 3.0e9 // bytes a second: 41 MB in 12 to 15 ms
	saveSpeed    = 2.5e9 // bytes a second: 47 MB in 17 ms at best
	link10G      = 10e9 / 8
	link25G      = 25e9 / 8
	lookup       = 0.001 // seconds

	fileSource   = "Slot files: 41 MB restored in 12 to 15 ms, 47 MB saved in 17 ms at best, in memory; measured by this project on a processor."
	link10Source = "Link: 10 Gbit/s, assumed."
	link25Source = "Link: 25 Gbit/s, assumed."

	gpuSource  = "github.com/XiongjieDai/GPU-Benchmarks-on-LLM-Inference, README, LLaMA 3, May 2024"
	tinySource = "github.com/geerlingguy/ai-benchmarks"
)

// A model's geometry: keys and values of two bytes an element.
func kvBytes(layers, heads, dim int) float64 { return float64(2 * layers * heads * dim * 2) }

var (
	kv1B  = kvBytes(16, 8, 64)  // Llama 3.2 1B
	kv8B  = kvBytes(32, 8, 128) // Llama 3.1 8B
	kv70B = kvBytes(80, 8, 128) // Llama 3.1 70B
)

// presets are single machines of which both speeds have been published. They are
// far apart in age and price: a preset is compared with itself under another
// policy, not with another preset.
var presets = []Costs{
	{
		Name: "1b-cpu", Prefill: 132.65, Decode: 38.81, Slots: 4, KVBytes: kv1B, Load: link10G,
		Sources: []string{"Speeds: 1.1B Q4_K_M, pp4096 132.65 and tg128 38.81 tokens/s on a Radxa Dragon Q8B, 8 threads; " + tinySource + " issue 54.", kvSource("Llama 3.2 1B", "16 layers × 8 heads × 64"), link10Source, fileSource},
	},
	{
		Name: "8b-cpu", Prefill: 155.5, Decode: 16.78, Slots: 4, KVBytes: kv8B, Load: link10G,
		Sources: []string{"Speeds: Llama 3.1 8B Q4_K_M, pp512 155.5 and tg128 16.78 tokens/s on a Threadripper 3970X, 32 cores; github.com/brand-o/normiebench issue 52.", kvSource("Llama 3.1 8B", "32 layers × 8 heads × 128"), link10Source, fileSource},
	},
	{
		Name: "70b-cpu", Prefill: 1000 / 295.53, Decode: 1000 / 487.15, Slots: 4, KVBytes: kv70B, Load: link10G,
		Sources: []string{"Speeds: Llama 2 70B Q4_0, 295.53 ms a prompt's token and 487.15 ms a generated one on a Mac Pro 2019, 16 cores; github.com/XiongjieDai/GPU-Benchmarks-on-LLM-Inference issue 1.", kvSource("Llama 3.1 70B", "80 layers × 8 heads × 128"), link10Source, fileSource},
	},
	{
		Name: "1b-gpu", Prefill: 18709.17, Decode: 762.37, Slots: 8, KVBytes: kv1B, Load: link25G,
		Sources: []string{"Speeds: 1.1B Q4_K_M, pp4096 18709.17 and tg128 762.37 tokens/s on an RTX 4090; " + tinySource + " issue 43.", kvSource("Llama 3.2 1B", "16 layers × 8 heads × 64"), link25Source, fileSource},
	},
	{
		Name: "8b-gpu", Prefill: 5265.68, Decode: 119.44, Slots: 8, KVBytes: kv8B, Load: link25G,
		Sources: []string{"Speeds: 8B Q4_K_M, pp4096 5265.68 and tg4096 119.44 tokens/s on an RTX 4090; " + gpuSource + ".", kvSource("Llama 3.1 8B", "32 layers × 8 heads × 128"), link25Source, fileSource},
	},
	{
		Name: "70b-gpu", Prefill: 846.38, Decode: 18.54, Slots: 8, KVBytes: kv70B, Load: link25G,
		Sources: []string{"Speeds: 70B Q4_K_M, pp4096 846.38 and tg4096 18.54 tokens/s on two RTX 4090; " + gpuSource + ".", kvSource("Llama 3.1 70B", "80 layers × 8 heads × 128"), link25Source, fileSource},
	},
}

func kvSource(model, geometry string) string {
	return "KV: " + model + ", 2 × " + geometry + " × 2 bytes a token."
}

func preset(name string) (Costs, bool) {
	for _, c := range presets {
		if c.Name == name {
			c.Lookup, c.Restore, c.Save = lookup, restoreSpeed, saveSpeed
			return c, true
		}
	}
	return Costs{}, false
}

// PresetNames returns the names of costs that ReadCosts knows.
func PresetNames() []string {
	var names []string
	for _, c := range presets {
		names = append(names, c.Name)
	}
	return names
}

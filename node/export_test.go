package node

// GPUModels are all models.
var GPUModels = gpuModels

// PlainRecording is what Decode makes of a recording in its usual form; false for every other text.
func (d *Decoder) PlainRecording(data []byte) (Facts, bool) {
	in, answers, plain := d.plainRecording(data)
	if !plain {
		return Facts{}, false
	}
	facts, err := in.facts(answers)
	return facts, err == nil
}

// AnyRecording is DecodeRecording as it reads what is not in its usual form.
func AnyRecording(data []byte) (Facts, error) {
	in, answers, err := anyRecording(data)
	if err != nil {
		return Facts{}, err
	}
	return in.facts(answers)
}

var (
	Elements    = elements
	Members     = members
	PlainScalar = plainScalar
)

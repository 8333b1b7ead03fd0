profile {
  extends   = ["bare"]
  variables = { prio = 1, priority = "5" }
}

variable "a" {
  type    = number
  default = "7"
}

variable "b" {
  type    = object({ dscp = number, name = optional(string, "x") })
  default = { dscpp = 1 }
}

variable "c" {
  default = node.arch
}

variable "d" {
  type = strin
}

variable "e" {
  default = 9

  validation {
    condition     = var.e < 8 && var.a == 7
    error_message = "no"
  }
}

variable "f" {
  default = 9

  validation {
    condition     = var.f < 8
    error_message = "f is below 8."
  }
}

variable "g" {
  type    = map(number)
  default = { a = 1, "b-c" = "x", "d e" = false }
}

variable "h" {
  type    = set(string)
  default = "x"
}

variable "i" {
  type    = list(object({ a = number }))
  default = [{ a = 1 }, { a = null }]
}

variable "j" {
  default     = 1
  description = 2

  validation {
    condition     = "yes"
    error_message = "no"
  }

  validation {
    condition = true
  }
}

selector "k" {
  nics   = node.nics
  expect = "2"
}

selector "l" {
  nics   = [node.nics[0], node.gpus[0]]
  expect = 1.5
}

# Reads each reply with the client, openapi-generator's for Ruby, and prints why it fails, by name.
$LOAD_PATH.unshift(__dir__, "service/lib")
require "json"
require "set"
require "service"

failures = {}
JSON.parse(File.read("replies.json")).each do |name, type, reply|
  begin
    object = Service.const_get(type).build_from_hash(JSON.parse(JSON.generate(reply), symbolize_names: true))
    raise "no instructions" if type == "Payment" && object.attempts[0].instructions.nil?
    object.to_hash
  rescue StandardError => error
    failures[name] = error.message
  end
end
puts JSON.generate(failures)

<?php
// Reads each reply with the client, openapi-generator's for PHP, and prints why it fails, by name.
declare(strict_types=1);

require 'classes.php';

$failures = [];
foreach (json_decode(file_get_contents('replies.json')) as [$name, $type, $reply]) {
    try {
        $object = service\ObjectSerializer::deserialize(json_encode($reply), "\\service\\Model\\$type", []);
        if ($type === 'Payment' && $object->getAttempts()[0]->getInstructions() === null) {
            throw new Exception('no instructions');
        }
        service\ObjectSerializer::sanitizeForSerialization($object);
    } catch (Throwable $error) {
        $failures[$name] = $error->getMessage();
    }
}
echo json_encode((object) $failures);

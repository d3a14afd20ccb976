<?php
// Loads the classes of both clients, and makes each warning an error.
require 'GuzzleHttp/autoload.php';
spl_autoload_register(function (string $class): void {
    $file = __DIR__ . preg_replace('#^/(service|control)/#', '/$1/lib/', strtr("/$class", '\\', '/')) . '.php';
    if (is_file($file)) {
        require $file;
    }
});
set_error_handler(function (int $level, string $message): bool {
    throw new ErrorException($message, 0, $level);
});
